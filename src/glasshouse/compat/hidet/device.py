"""Hidet's devices: tensors that name one, so that graphs made for them run there.

Data lies on the host, and what is computed tensor by tensor is computed there; a graph runs on the
device of the tensors or the module that it was made for.
"""

from __future__ import annotations

from typing import Any

import glasshouse as gh
from glasshouse.errors import Unsupported


def device_name(given: object) -> str:
    """ "cpu" or "cuda" of what names a device, as "cuda:0" does; None is the host."""
    name = str(given or "cpu").partition(":")[0]
    if name not in ("cpu", "cuda") or str(given).partition(":")[2] not in ("", "0"):
        raise Unsupported(f"there is no device {given!r} here", hint="'cpu', or 'cuda' for a GPU")
    return name


class Tensor(gh.Tensor):
    """A tensor that names a device."""

    __slots__ = ("device",)
    device: str

    def cuda(self, device: Any = None) -> Tensor:
        return placed(self, "cuda" if device is None else device)

    def cpu(self) -> Tensor:
        return placed(self, "cpu")


def placed(tensor: gh.Tensor, device: object) -> Tensor:
    """The same tensor, on a device."""
    made = Tensor.__new__(Tensor)
    gh.Tensor.__init__(made, tensor.value, tensor.name)
    made.device = device_name(device)
    return made
