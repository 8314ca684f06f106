"""What a module is in Jittor's way: `execute` runs it, the tensors it holds are learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse import Tensor, nn


class Module(nn.Module):
    """Override `__init__` and `execute`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
            value = nn.Parameter(value, requires_grad=value.dtype.is_float)
        super().__setattr__(name, value)

    def forward(self, *args: Any, **keywords: Any) -> Any:
        return self.execute(*args, **keywords)

    def execute(self, *args: Any, **keywords: Any) -> Any:
        return super().forward(*args, **keywords)

    def parameters(self) -> Any:
        """A list, as Jittor gives it."""
        return list(super().parameters())

    def is_training(self) -> bool:
        return self.training


def make_module(function: Callable[..., Any], exec_n_args: int = 1) -> type[Module]:
    """A module class out of a function: the first arguments come with the call, the rest before."""

    class Made(Module):
        def __init__(self, *args: Any, **keywords: Any) -> None:
            self.given = args
            self.keywords = keywords

        def execute(self, *args: Any) -> Any:
            return function(*args[:exec_n_args], *self.given, **self.keywords)

    Made.__name__ = Made.__qualname__ = function.__name__
    return Made
