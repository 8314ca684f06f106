"""Tells of a model around which torch.compile compiles nothing, because Dynamo never asks us.

Dynamo runs DistributedDataParallel's own forward in Python and begins with the first function below
it that is the user's. A model made of PyTorch's classes alone (`DDP(nn.Sequential(...))`) has none.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from types import FrameType
from typing import Any

import torch

from glasshouse.errors import NotCompiled
from glasshouse.frontend.dynamo.hooks import around_captures

_told: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()


def watch() -> None:
    """Look at what is called whenever Dynamo begins with a function, from now on."""
    around_captures(_look)


def _look(_: Any) -> None:
    model = _data_parallel(sys._getframe(1))
    if model is None or model in _told:
        return
    _told.add(model)
    if all(type(part).__module__.startswith("torch.nn.") for part in model.module.modules()):
        name = type(model.module).__name__
        warnings.warn(
            f"nothing of this {name} is compiled: Dynamo starts with a forward that is the user's, "
            f"and {type(model).__name__}({name}) has only PyTorch's own; "
            f"compile first, DDP(torch.compile(model)), or call it in a module of yours",
            NotCompiled,
            stacklevel=2,
        )


def _data_parallel(frame: FrameType | None) -> Any:
    """The innermost DistributedDataParallel whose forward is running."""
    while frame is not None:
        if frame.f_code.co_name == "_run_ddp_forward":
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None
