"""How the data of a module goes out and comes in: by path, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.tensor.create import array
from glasshouse.tensor.tensor import Tensor

if TYPE_CHECKING:
    from glasshouse.nn.module import Module


def state_dict(module: Module) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}
    stack: list[tuple[str, Module]] = [("", module)]
    while stack:
        path, current = stack.pop()
        tensors = dict(current._parameters) | {
            n: b for n, b in current._buffers.items() if n not in current._transient
        }
        for name, tensor in tensors.items():
            if tensor is not None:
                out[path + name] = tensor
        below = [(f"{path}{name}.", child) for name, child in current.named_children()]
        stack.extend(reversed(below))
    return out


def load_state_dict(module: Module, state: Mapping[str, Any], strict: bool = True) -> None:
    """Checked as a whole before anything changes."""
    own = state_dict(module)
    missing = [name for name in own if name not in state]
    extra = [name for name in state if name not in own]
    if strict and (missing or extra):
        parts = []
        if missing:
            parts.append(f"missing: {_listed(missing)}")
        if extra:
            parts.append(f"unknown: {_listed(extra)}")
        raise TypeMismatch(
            f"the state does not fit {type(module).__name__}; {'; '.join(parts)}",
            hint="strict=False takes what fits",
        )
    wrong = [
        f"{name}: {list(_shape(state[name]))} for {tensor.type}"
        for name, tensor in own.items()
        if name in state and tuple(_shape(state[name])) != tensor.shape
    ]
    if wrong:
        what = f"shapes in the state do not fit {type(module).__name__}: {'; '.join(wrong[:5])}"
        raise ShapeError(what)
    for name, tensor in own.items():
        if name in state:
            data = state[name]
            given = data.detach() if isinstance(data, Tensor) else array(data, tensor.dtype)
            tensor.assign(given.cast(tensor.dtype))


def _shape(data: Any) -> tuple[Any, ...]:
    return tuple(data.shape) if hasattr(data, "shape") else np.shape(data)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
