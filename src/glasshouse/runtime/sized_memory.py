"""Memory of the quick path for what has no upper bound: values, and the workspaces of kernels.

It lies in one block of the workspace, laid out for the sizes of the last call. A call with the same
sizes finds addresses in the table as they are; one with others computes offsets first (0.2 us a
value). The general path asked for memory of each value in each call: 5 us a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glasshouse.backend.memory import aligned_bytes
from glasshouse.errors import OutOfMemory
from glasshouse.ir.dim import Symbol, symbols_of
from glasshouse.ir.graph import Value
from glasshouse.lower.plan import ALIGN
from glasshouse.lower.program import Program
from glasshouse.lower.symbols import symbol_name
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.quick_arguments import spelled_size
from glasshouse.runtime.workspace import Runtimes, Workspace

_SPARE = 4
"""A block that is larger than so many times what a call needs is given back: one long prompt does
not hold its memory through all that follows."""
_LEAST = 1 << 20  # bytes that are never worth giving back

Layout = Callable[..., tuple[tuple[int, ...], int]]
"""Sizes of the symbols -> the bytes of each room, and of the largest workspace."""


class SizedMemory:
    """Lays out the memory of a program for the sizes of a call."""

    def __init__(self, program: Program, runtimes: Runtimes, symbols: Sequence[Symbol]) -> None:
        """`symbols` are those whose sizes calls bring, in the order in which `fit` gets them."""
        plan = program.memory
        self._runtimes = runtimes
        self._rooms = [[plan.table[value] for value in room] for room in plan.rooms]
        self._room_of = {value: i for i, room in enumerate(plan.rooms) for value in room}
        self._work_offset = plan.work_offset
        self._symbols = symbols
        self._name = program.graph.name or "this model"
        self._layout = _layout(program, symbols)

    @staticmethod
    def serves(program: Program, brought: Sequence[Symbol]) -> bool:
        """Whether inputs bring all sizes that its memory depends on."""
        plan, known = program.memory, {symbol.name for symbol in brought}
        sizes = [*(v.type.nbytes for v in plan.unbounded), *plan.workspaces]
        return all(symbols_of(size).keys() <= known for size in sizes)

    def fit(self, workspace: Workspace, sizes: tuple[int, ...]) -> None:
        """From now on tables point to memory for calls of these sizes."""
        rooms, work = self._layout(*sizes)
        needed = sum(rooms) + ALIGN
        held = 0 if workspace.sized is None else workspace.sized.size
        workspace.fitted = None  # tables point to nothing from here on, also if memory is refused
        try:
            if workspace.sized is None or needed > held or held > max(_LEAST, _SPARE * needed):
                workspace.sized = None  # before there is another
                workspace.sized = aligned_bytes(needed)
            if self._work_offset + work + ALIGN > workspace.arena.size:
                workspace.grow(self._work_offset + work + ALIGN, self._work_offset)
                workspace.bind(self._runtimes.constants, self._runtimes.state)
        except MemoryError:
            called = ", ".join(f"{s.name} = {n}" for s, n in zip(self._symbols, sizes, strict=True))
            raise OutOfMemory(
                f"no memory for the {needed + work:,} bytes that lie between the kernels of "
                f"{self._name} when it is called with {called}",
                hint="give smaller inputs",
            ) from None
        workspace.views = None
        at = begin = workspace.sized.ctypes.data
        offsets = []
        for places, size in zip(self._rooms, rooms, strict=True):
            offsets.append(at - begin)
            for table in workspace.tables:
                for place in places:
                    table[place] = at
            at += size
        workspace.rooms = offsets
        workspace.fitted = sizes

    def bytes_of(self, workspace: Workspace, value: Value) -> Array | None:
        """The memory of a value in a workspace that is fitted, from its beginning on; None: the
        value has a bound, and its place elsewhere."""
        room = self._room_of.get(value)
        if room is None or workspace.sized is None:
            return None
        return workspace.sized[workspace.rooms[room] :]


def _layout(program: Program, symbols: Sequence[Symbol]) -> Layout:
    plan = program.memory

    def most(sizes: Sequence[str]) -> str:
        distinct = list(dict.fromkeys(sizes))
        return distinct[0] if len(distinct) == 1 else f"max({', '.join(distinct)})"

    rooms = []
    for room in plan.rooms:
        size = most([spelled_size(v.type.nbytes) for v in room])
        rooms.append(f"-(-{size} // {ALIGN}) * {ALIGN}, ")
    work = most([spelled_size(size) for size in plan.workspaces] or ["0"])
    names = ", ".join(symbol_name(s.name) for s in symbols)
    made: dict[str, Layout] = {}
    exec(f"def layout({names}):\n    return ({''.join(rooms)}), {work}", {}, made)
    return made["layout"]
