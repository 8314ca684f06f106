"""What a recording measured of a graph's nodes and kernels: the first of its runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from glasshouse.record.graph_view import GraphView
from glasshouse.record.schema import NEVER, TimeRow


@dataclass(frozen=True)
class Times:
    """Seconds by id, and the spreads of kernels; a kernel that is timed in parts counts whole."""

    run: str
    by_node: Mapping[int, float]
    by_kernel: Mapping[int, float]
    spreads: Mapping[int, float]  # by kernel

    @property
    def total(self) -> float:
        """Seconds of all nodes, or of all kernels where only these were timed; 0 for nothing."""
        return sum(self.by_node.values()) or sum(self.by_kernel.values())


def times_of(graph: GraphView) -> Times:
    """The first run's times."""
    rows = graph.table(TimeRow)
    by_node: dict[int, float] = defaultdict(float)
    by_kernel: dict[int, float] = defaultdict(float)
    spreads: dict[int, float] = defaultdict(float)
    run = rows.row(0).run if rows.rows else ""
    for row in rows:
        if row.run != run or not math.isfinite(row.seconds):
            continue
        if row.node != NEVER:
            by_node[row.node] += row.seconds
        if row.kernel != NEVER:
            by_kernel[row.kernel] += row.seconds
            spreads[row.kernel] = max(spreads[row.kernel], row.spread)
    return Times(run, dict(by_node), dict(by_kernel), dict(spreads))
