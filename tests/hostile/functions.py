"""A function as a module of PyTorch, which is what frontends take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Of(torch.nn.Module):
    """The module whose forward is a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given)
