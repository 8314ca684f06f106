"""Weights that a module holds packed alone (`take_weights`), and how they are read back from there.

Kernels read many weights in a packed form and never as the model has them. Of such a weight the
model's memory can go as soon as it is packed. Its constant stays in the graph: the data of the node
is then a `TakenWeight`, which is unpacked whenever somebody reads it, to save a module say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from glasshouse.backend.memory import aligned_bytes
from glasshouse.ir.dtype import DType, bfloat16, float16, float32, float64, from_storage, to_storage
from glasshouse.ir.graph import Value
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.kernel.kernel import OPERAND
from glasshouse.lower.kernel.queries import reads_as_it_lies
from glasshouse.lower.program import Call, Program
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.late_array import SMALLEST, LateArray

_LEAST = 64  # rows and columns: filling up to panels of 32 then takes less than half as much again
_KINDS = ("panels", "narrow_panels")  # forms that hold each element once, as it was or wider
_TYPES = (float32, float64, bfloat16, float16)
_DIGIT = 8  # bits: numbers up to 256 are exact in every type

Pack = Callable[[Array, Array], None]
"""Fills a form (the first) from a plain array."""


def packed_alone(program: Program) -> list[Value]:
    """Named constants that kernels read in a form that can be undone, and nothing reads as such."""
    plain = {v for s in program.steps if not isinstance(s, Call) for v in s.node.inputs}
    plain.update(program.memory.kept)
    for step in program.steps:
        if isinstance(step, Call):
            names = [b.name for b in step.kernel.with_role(OPERAND)]
            pairs = zip(names, step.operands, strict=True)
            plain.update(v for name, v in pairs if reads_as_it_lies(step.kernel, name))
    lie = {program.buffer_of(v) for v in plain}
    forms: dict[Value, set[str]] = {}
    for packed in program.memory.packed:
        forms.setdefault(packed.source, set()).add(packed.form.kind)
    return [
        value
        for value, kinds in forms.items()
        if kinds <= set(_KINDS) and value not in lie and _is_large_weight(value)
    ]


def _is_large_weight(value: Value) -> bool:
    node, size = value.node, value.type.nbytes
    named = node.op is CONSTANT and bool(node.attrs["name"]) and value.type.dtype in _TYPES
    long = all(isinstance(d, int) and d >= _LEAST for d in value.type.shape[-2:])
    return named and long and isinstance(size, int) and size >= SMALLEST


class Taker(Protocol):
    """Whose weights are taken."""

    def release(self, name: str) -> None:
        """Let go of the memory of a weight, if there is one of this name."""


class TakenWeight(LateArray):
    """The data of a constant that is held packed: an array as soon as NumPy asks for one."""

    def __init__(self, value: Value, form: Array, pack: Pack) -> None:
        self._dtype: DType = value.type.dtype
        shape = tuple(int(d) for d in value.type.shape if isinstance(d, int))
        super().__init__(shape, np.dtype(self._dtype.storage))
        self._form, self._pack = form, pack

    def fetched(self) -> Array:
        return unpacked(self._form, self._pack, self.shape, self._dtype)


def unpacked(form: Array, pack: Pack, shape: tuple[int, ...], dtype: DType) -> Array:
    """The array that a form was packed from, as it is stored.

    Where each element went is found out by packing numbers of places, digit by digit: a form holds
    them wherever it holds the elements, and zeroes where it is filled up.
    """
    count = int(np.prod(shape, dtype=np.int64))
    # Halves may lie widened in a form; filling up alone does not make it twice as large.
    wide = dtype.itemsize == 2 and form.nbytes >= 2 * count * dtype.itemsize
    kind = float32 if wide else dtype
    held = form[: form.nbytes // kind.itemsize * kind.itemsize].view(kind.storage)
    place = np.full(held.size, -1, np.int64)
    numbers = np.arange(count, dtype=np.int64)
    for digit in range(max(1, -(-count.bit_length() // _DIGIT))):
        plain = ((numbers >> (digit * _DIGIT)) % (1 << _DIGIT) + 1).astype(np.float32)
        packed = aligned_bytes(form.nbytes)
        pack(packed, _stored(plain, dtype))
        found = from_storage(packed[: held.nbytes].view(kind.storage), kind).astype(np.int64) - 1
        if digit == 0:
            place = found
        else:
            place[found >= 0] += found[found >= 0] << (digit * _DIGIT)
    out = np.empty(count, dtype.storage)
    used = place >= 0
    elements = held[used]
    out[place[used]] = _stored(from_storage(elements, kind), dtype) if wide else elements
    return out.reshape(shape)


def _stored(array: Array, dtype: DType) -> Array:
    plain = array if dtype is bfloat16 else array.astype(dtype.storage)
    return np.ascontiguousarray(to_storage(plain, dtype))


def take_over(value: Value, form: Array, pack: Pack, owner: Taker) -> None:
    """From now on a constant's data is read from its form, and its owner's memory is not needed.

    Copies of a graph share the attributes of their nodes, so those that the module remembers no
    longer hold the array either.
    """
    attrs = value.node.attrs
    assert isinstance(attrs, dict)
    attrs["data"] = TakenWeight(value, form, pack)
    owner.release(str(attrs["name"]))
