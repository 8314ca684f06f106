"""What `as_strided` reads and writes: the memory that its argument lies in, which is that of the
tensor at the end of a chain of views, whatever part of it the argument is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from glasshouse.errors import CaptureError
from glasshouse.frontend.torch.aten.shape import as_strided
from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.frontend.torch.slot import Slot
from glasshouse.frontend.torch.taken_apart import elements_of_storage
from glasshouse.frontend.torch.views import put_by_index
from glasshouse.ir.dim import product
from glasshouse.ops.shape import permuted, reshaped

NAMES = {"aten::as_strided", "aten::as_strided_copy", "aten::as_strided_scatter"}


def is_whole(val: Any) -> bool:
    """Whether a tensor lies row by row and nothing else is in its memory. Sizes that are not known
    are taken for such ones."""
    if any(isinstance(s, torch.SymInt) for s in (*val.shape, *val.stride(), val.storage_offset())):
        return True
    if not val.is_contiguous() or val.storage_offset():
        return False
    return bool(elements_of_storage(val) == val.numel())


class Strided:
    """One call, on the slot `memory` that has all of it: flat, or laid out like `base`."""

    def __init__(self, memory: Slot, base: Any, args: Sequence[Any], offset: int) -> None:
        self.memory = memory
        self._base = base
        self._size, self._stride = args
        self._offset = offset

    def read(self, held: Any) -> Any:
        """The elements that the strides name."""
        if isinstance(held, Complex):
            return joined(*(self.read(part) for part in held.parts()))
        return as_strided(self._flat(held), self._size, self._stride, self._offset)

    def write(self, held: Any, new: Any) -> Any:
        """The memory with those elements replaced."""
        if isinstance(held, Complex):
            pairs = zip(held.parts(), new.parts(), strict=True)
            return joined(*(self.write(part, given) for part, given in pairs))
        return put_by_index(held, new, self.read)

    def view(self) -> Slot:
        memory = self.memory
        return Slot(self.read(memory.read()), parent=memory, replay=self.read, back=self.write)

    def _flat(self, held: Any) -> Any:
        if self._base is None:  # it is the memory itself
            return held
        order = sorted(range(held.ndim), key=lambda axis: -self._base.stride(axis))
        return reshaped(permuted(held, order), (product(held.shape),))


def strided(root: Any, slot: Any, val: Any, arguments: Sequence[Any]) -> Strided:
    """A call of `as_strided` on a tensor like `val`, by the tensor at the end of its chain of
    views, like `root`, that `slot` holds."""
    size, stride = arguments[0], arguments[1]
    offset = arguments[2] if len(arguments) > 2 else None
    offset = val.storage_offset() if offset is None else offset
    if isinstance(slot, Slot) and slot.root is not slot:
        return Strided(slot.root, None, (size, stride), offset)  # an argument inside of its memory
    if not isinstance(slot, Slot) or root.dtype is not val.dtype or not _is_dense(root):
        raise CaptureError(
            "as_strided reads memory of which only a part is known, or that has other elements",
            hint="call it on x.contiguous(), or on the whole tensor",
        )
    return Strided(slot, root, (size, stride), offset)


def _is_dense(val: Any) -> bool:
    """Whether elements fill the memory from its start, in any order of axes."""
    if val.storage_offset():
        return False
    order = sorted(range(val.ndim), key=lambda axis: -val.stride(axis))
    return bool(val.permute(order).is_contiguous())
