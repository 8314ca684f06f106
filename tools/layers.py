"""Tables of layers: which may import which; shared by the checks of Python and of TypeScript."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

Table = dict[str, frozenset[str]]
"""A layer and those that it may import; what those may import, it may import too."""


@dataclass(frozen=True)
class Violation:
    """One import that a table does not allow."""

    file: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


def closure(table: Table) -> Table:
    """Every layer with all that it may reach; raises CycleError when arrows go in a circle."""
    reach: Table = {}
    for layer in TopologicalSorter(table).static_order():
        direct = table.get(layer, frozenset())
        reach[layer] = direct.union(*(reach[other] for other in direct))
    return reach
