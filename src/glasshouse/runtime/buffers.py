"""The memory plan of a compiled program as rows of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from glasshouse.ir.graph import Value
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.lower.plan import Arrival, has_bound, upper_bytes
from glasshouse.lower.program import Fallback, Program
from glasshouse.record.graph_writer import GraphWriter
from glasshouse.record.schema import BufferRow, DataRow


def keep_buffers(program: Program, owner: GraphWriter) -> None:
    """A row for every value of the program, and for each what can colour its node."""
    for row in buffer_rows(program):
        owner.add(row)
        if row.place == "arena" and row.how != "view":
            owner.add(DataRow("arena offset", row.node, row.offset))
            owner.add(DataRow("arena bytes", row.node, row.bytes))
        if row.how in ("view", Arrival.IN_PLACE.value):
            name = "view of" if row.how == "view" else "written over"
            owner.add(DataRow(name, row.node, row.of_node, f"%{row.of_node}"))


def buffer_rows(program: Program) -> Iterator[BufferRow]:
    """The memory of every value, as it is passed to kernels."""
    plan = program.memory
    rows: dict[Value, BufferRow] = {}
    new = {u.new: u for u in plan.updates}
    places = _places(program)
    for value, slot in plan.table.items():
        rows[value] = _row(program, value, places[value], slot=slot)
        if (update := new.get(value)) is not None and places[value] == "new value":
            variable = update.variable.output
            shares = (variable.node.id, variable.index)
            over = shares if update.how is Arrival.IN_PLACE else (-1, -1)
            rows[value] = replace(
                rows[value], how=update.how.value, of_node=over[0], of_port=over[1]
            )
    for value, offset in plan.arena.items():
        life = plan.lifetimes[value]
        rows[value] = _row(
            program, value, "arena", offset=float(offset), first=life.begin, last=life.end
        )
    yield from rows.values()
    for value in program.aliases:
        owner = program.buffer_of(value)
        if owner in rows:
            base, made = rows[owner], _row(program, value, rows[owner].place)
            yield replace(
                made, slot=base.slot, offset=base.offset, of_node=base.node, of_port=base.port,
                how="view", first=base.first, last=base.last,
            )  # fmt: skip
    for form, slot in plan.packed.items():
        source = form.source
        yield BufferRow(source.node.id, source.index, "prepared", slot, bytes=-1.0)


def _row(
    program: Program,
    value: Value,
    place: str,
    slot: int = -1,
    offset: float = 0.0,
    first: int = -1,
    last: int = -1,
) -> BufferRow:
    size = value.type.nbytes
    return BufferRow(
        value.node.id, value.index, place, slot, offset,
        float(upper_bytes(size)) if has_bound(size) else -1.0, first, last,
        layout=list(program.orders.get(value, ())),
    )  # fmt: skip


def _places(program: Program) -> dict[Value, str]:
    """What each value in the table of pointers is; what stands first counts."""
    graph = program.graph
    out = dict.fromkeys(graph.inputs, "input")
    for node in graph.nodes:
        if node.op is CONSTANT or node.op is VARIABLE:
            out.setdefault(node.output, node.op.name)
    steps = (s.node for s in program.steps if isinstance(s, Fallback))
    groups = (
        ("output", graph.outputs), ("new value", graph.updates.values()),
        ("run", program.memory.unbounded), ("fallback", (v for n in steps for v in n.outputs)),
    )  # fmt: skip
    for name, values in groups:
        for value in values:
            out.setdefault(value, name)
    return out
