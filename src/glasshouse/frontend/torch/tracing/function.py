"""Plain functions of torch tensors as modules, so that they are captured like models."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch


def as_module(function: Callable[..., Any]) -> torch.nn.Module:
    """A module whose forward is this function, with the models that it uses inside."""
    made = type(getattr(function, "__name__", "function"), (torch.nn.Module,), {})()
    object.__setattr__(made, "forward", _with_signature(function))
    for name, model in _used_models(function).items():
        made.add_module(name, model)
    return made


def _with_signature(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with parameters that can be asked for: some of PyTorch's own have none."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    with suppress(TypeError, ValueError):
        forward.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # is read
    return forward


def _used_models(function: Callable[..., Any]) -> dict[str, torch.nn.Module]:
    """Models that a function reaches: whose method it is, and what it closes over."""
    found: dict[str, Any] = {"model": getattr(function, "__self__", None)}
    with suppress(TypeError):  # of what is no function of Python's
        held = inspect.getclosurevars(function)
        found.update({**held.globals, **held.nonlocals})
    return {n: m for n, m in found.items() if isinstance(m, torch.nn.Module)}
