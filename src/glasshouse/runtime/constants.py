"""How constants are held and replaced: in sets that never change once they are made.

A run keeps to the set that it began with. New data makes a new set beside the old one, which shares
every array that did not change; taking it into use is one assignment. So loading weights holds up
no run, no run sees half of them, and an old set goes when its last run has ended.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from glasshouse.backend.base import Executable
from glasshouse.backend.memory import ALIGN, aligned_bytes
from glasshouse.ir.graph import Value
from glasshouse.lower.numbers import is_number, is_zero_point
from glasshouse.lower.plan import MemoryPlan
from glasshouse.lower.program import Call, Program
from glasshouse.lower.quant import INT8, computes_in
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.late_array import LateArray, on_host
from glasshouse.runtime.mapped import MappedWeights
from glasshouse.runtime.prefault import Prefaulted
from glasshouse.runtime.shared_forms import share, shared_form
from glasshouse.runtime.taken import Taker, packed_alone, take_over

Done = Callable[[int, int, Array], None]


@dataclass(frozen=True)
class Packing:
    """How the library brings constants into the form that its kernels want."""

    executable: Executable
    program: Program
    prefaulted: Prefaulted | None = None  # for the first packed forms
    mapped: MappedWeights | None = None  # the file that constants of a loaded module are in
    shares: bool = False  # forms of the same weights with other modules

    @property
    def plan(self) -> MemoryPlan:
        return self.program.memory

    def packed(
        self, arrays: Mapping[int, Array | LateArray], changed: set[int], done: Done | None = None
    ) -> dict[int, Array]:
        """New packed forms of the constants at the places `changed`, in one block or two.

        `done` is called for each as soon as it is made: places of form and constant, and the form.
        """
        forms = {place: packed for packed, place in self.plan.packed.items()}
        source_of = {
            place: self.plan.table[packed.source]
            for place, packed in forms.items()
            if self.plan.table[packed.source] in changed
        }
        made: dict[int, Array] = {}
        if self.shares:
            for place, source in source_of.items():
                found = shared_form(on_host(arrays[source]), forms[place].form, self.executable)
                if found is not None:
                    made[place] = found
        sizes = {
            place: -(-self.executable.prepared_bytes(place) // ALIGN) * ALIGN
            for place in source_of
            if place not in made
        }
        left = sum(sizes.values())
        block = None if self.prefaulted is None else self.prefaulted.take(left)
        begin = 0
        for place, size in sizes.items():
            source = source_of[place]
            if block is None or begin + size > block.size:
                block, begin = aligned_bytes(left), 0
            form = made[place] = block[begin : begin + size]
            begin += size
            left -= size
            plain = on_host(arrays[source])
            self.pack(place, source, form, plain)
            if self.shares:
                share(plain, forms[place].form, form, self.executable)
            if done is not None:
                done(place, source, form)
        return made

    def pack(self, place: int, source: int, form: Array, array: Array) -> None:
        """One form; its constant need not be in memory from then on."""
        table = (ctypes.c_void_p * max(self.plan.table_size, 1))()
        table[place], table[source] = form.ctypes.data, array.ctypes.data
        self.executable.prepare(ctypes.addressof(table))
        if self.mapped is not None:
            self.mapped.release(array)


@dataclass(frozen=True, eq=False)
class ConstantSet:
    """Arrays by their place in the table of pointers, packed forms among them; a module of a device
    may have its tensors among them."""

    packing: Packing
    arrays: Mapping[int, Array | LateArray] = field(default_factory=dict)

    @staticmethod
    def first(
        packing: Packing, arrays: dict[int, Array | LateArray], owner: Taker | None
    ) -> ConstantSet:
        """The set that a module begins with. With an `owner` whose weights are taken, those that
        can be go as soon as they are packed: from `arrays`, from the graph, from their owner."""
        plan = packing.plan
        alone = set() if owner is None else set(packed_alone(packing.program))
        last = {
            plan.table[f.source]: (p, f.source) for f, p in plan.packed.items() if f.source in alone
        }

        def done(place: int, source: int, form: Array) -> None:
            if owner is not None and source in last and last[source][0] == place:
                pack = functools.partial(packing.pack, place, source)
                take_over(last[source][1], form, pack, owner)
                del arrays[source]

        packed = packing.packed(arrays, set(arrays), done)
        return ConstantSet(packing, {**arrays, **packed})

    def replaced(self, arrays: Mapping[int, Array | LateArray]) -> ConstantSet:
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
        if is_number(value) or (computes_in(step.kernel.variant) == INT8 and is_zero_point(value))
    }
