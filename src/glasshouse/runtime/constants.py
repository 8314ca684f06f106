"""How constants are held and replaced: in sets that never change once they are made.

A run keeps to the set that it began with. New data makes a new set beside the old one, which shares
every array that did not change; taking it into use is one assignment. So loading weights holds up
no run, no run sees half of them, and an old set goes when its last run has ended.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field

from glasshouse.backend.base import Executable
from glasshouse.backend.memory import ALIGN, aligned_bytes
from glasshouse.ir.graph import Value
from glasshouse.lower.numbers import is_number, is_zero_point
from glasshouse.lower.plan import MemoryPlan
from glasshouse.lower.program import Call, Program
from glasshouse.lower.quant import INT8
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.mapped import MappedWeights
from glasshouse.runtime.prefault import Prefaulted


@dataclass(frozen=True)
class Packing:
    """How the library brings constants into the form that its kernels want."""

    executable: Executable
    plan: MemoryPlan
    prefaulted: Prefaulted | None = None  # for the first packed forms
    mapped: MappedWeights | None = None  # where constants of a loaded module lie

    def packed(self, arrays: Mapping[int, Array], changed: set[int]) -> dict[int, Array]:
        """New packed forms of the constants at the places `changed`, in one block or two."""
        source_of = {
            place: self.plan.table[form.source]
            for form, place in self.plan.packed.items()
            if self.plan.table[form.source] in changed
        }
        sizes = {
            place: -(-self.executable.prepared_bytes(place) // ALIGN) * ALIGN for place in source_of
        }
        left = sum(sizes.values())
        block = None if self.prefaulted is None else self.prefaulted.take(left)
        made: dict[int, Array] = {}
        begin = 0
        for place, source in source_of.items():
            if block is None or begin + sizes[place] > block.size:
                block, begin = aligned_bytes(left), 0
            made[place] = block[begin : begin + sizes[place]]
            begin += sizes[place]
            left -= sizes[place]
            self._pack(place, made[place], source, arrays[source])
        return made

    def _pack(self, place: int, form: Array, source: int, array: Array) -> None:
        """One form; its constant need not be in memory from then on."""
        table = (ctypes.c_void_p * max(self.plan.table_size, 1))()
        table[place], table[source] = form.ctypes.data, array.ctypes.data
        self.executable.prepare(ctypes.addressof(table))
        if self.mapped is not None:
            self.mapped.release(array)


@dataclass(frozen=True, eq=False)
class ConstantSet:
    """Arrays by their place in the table of pointers, packed forms among them."""

    packing: Packing
    arrays: Mapping[int, Array] = field(default_factory=dict)

    def replaced(self, arrays: Mapping[int, Array]) -> ConstantSet:
        """A set with other data at some places."""
        plain = {**self.arrays, **arrays}
        return ConstantSet(self.packing, {**plain, **self.packing.packed(plain, set(arrays))})


def built_in(program: Program) -> dict[Value, str]:
    """Constants whose data stands in the code of a kernel, with its name: new data has no effect.

    Single numbers do, and weights' zero points of 0 where products are whole numbers.
    """
    return {
        value: step.kernel.name
        for step in program.steps
        if isinstance(step, Call)
        for value in step.node.inputs
        if is_number(value) or (step.kernel.variant == INT8 and is_zero_point(value))
    }
