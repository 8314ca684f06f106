"""Finds what a loop over vectors, or an epilogue, reads again and again although it stays the same.

A compiler may not move such a read in front: a store of the loop could have changed what is read,
as far as it knows. So a learning rate of float64 was read, spread over two registers and rounded
for each vector of weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from glasshouse.lower.kernel.expr import Apply, Load, Number
from glasshouse.lower.kernel.index import Checked, Loop
from glasshouse.lower.kernel.queries import depends, loads, variables
from glasshouse.lower.kernel.statement import Let, Statement


def fixed_values(
    body: Iterable[Statement], loops: Collection[Loop], changing: Iterable[str] = ()
) -> list[Let]:
    """Variables that are read from memory, or made of such, and are the same in all turns of the
    loops, with what else they are made of; in order. `changing` are variables that are not."""
    others = set(changing)
    fixed: dict[str, Let] = {}
    for s in body:
        if not isinstance(s, Let):
            continue
        same = isinstance(s.value, (Load, Number, Apply)) and not _by_data(s)
        read = variables(s.value)
        if not same or not others.isdisjoint(read) or any(depends(s, x) for x in loops):
            others.add(s.name)
        else:
            fixed[s.name] = s
    from_memory: set[str] = set()
    for name, let in fixed.items():
        if isinstance(let.value, Load) or not from_memory.isdisjoint(variables(let.value)):
            from_memory.add(name)
    wanted = set(from_memory)
    for name, let in reversed(fixed.items()):
        if name in wanted:
            wanted |= variables(let.value)
    return [let for name, let in fixed.items() if name in wanted]


def _by_data(let: Let) -> bool:
    """Whether a place that data say, and that may be reported, is read at."""
    return any(isinstance(a, Checked) for x in loads(let.value) for a in x.index.atoms())
