"""Two compilers on one model: the least parts of it that both compute by kernels of their own.

Compilers fuse differently, so kernels do not match one to one. Kernels that share an op of the
model belong to one region; the times of a region's kernels can be compared.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from glasshouse.record.graph_view import GraphView
from glasshouse.record.reader import Recording
from glasshouse.record.schema import KernelRow, NodeRow
from glasshouse.show.times import times_of

_LAYERS = "originalLayersNames"  # in OpenVINO's execution graph
COMPILER = "compiler"
"""The fact that names a compiler other than this one."""


@dataclass(frozen=True)
class SharedPart:
    """Ops of the model, with the kernels of each side that compute them."""

    ops: tuple[str, ...]
    a: tuple[str, ...]  # titles of kernels
    b: tuple[str, ...]
    seconds_a: float
    seconds_b: float

    @property
    def ratio(self) -> float:
        """B over A."""
        return self.seconds_b / self.seconds_a if self.seconds_a else math.nan


def regions(a: tuple[Recording, GraphView], b: tuple[Recording, GraphView]) -> list[SharedPart]:
    """The regions that both sides have kernels for, the largest gap first."""
    sides = [_kernels(*a), _kernels(*b)]
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for kernels in sides:
        for names, _, _ in kernels:
            first, *rest = sorted(names)
            for other in rest:
                parent[root(other)] = root(first)
    found: dict[str, tuple[set[str], list[list[tuple[str, float]]]]] = defaultdict(
        lambda: (set(), [[], []])
    )
    for side, kernels in enumerate(sides):
        for names, title, seconds in kernels:
            ops, made = found[root(min(names))]
            ops |= names
            made[side].append((title, seconds))
    out = [
        SharedPart(
            tuple(sorted(ops)), tuple(t for t, _ in old), tuple(t for t, _ in new),
            sum(s for _, s in old), sum(s for _, s in new),
        )
        for ops, (old, new) in found.values()
        if old and new
    ]  # fmt: skip
    return sorted(out, key=lambda r: -abs(r.seconds_b - r.seconds_a))


def other_compilers(a: Recording, b: Recording) -> bool:
    """Whether the two recordings are of different compilers."""
    return a.header.facts.get(COMPILER, "") != b.header.facts.get(COMPILER, "")


def _kernels(recording: Recording, graph: GraphView) -> list[tuple[set[str], str, float]]:
    """Names of the model's ops, title and seconds of each timed kernel."""
    times = times_of(graph).by_kernel
    rows = _rows(recording, graph)
    out = []
    for kernel in graph.table(KernelRow):
        names = _names([kernel.node, *kernel.ops], rows)
        if kernel.id in times and names:
            out.append((names, kernel.title or kernel.name, times[kernel.id]))
    return out


def _rows(recording: Recording, graph: GraphView) -> dict[int, NodeRow]:
    """Every node of every stage, and those inside of kernels."""
    out: dict[int, NodeRow] = {}
    for inner in recording.graphs:
        if inner.info.parent == graph.index:
            out |= {row.id: row for row in inner.stage(-1).nodes}
    return out | {row.id: row for row in graph.nodes_until(len(graph.info.stages) - 1)}


def _names(ids: Iterable[int], rows: dict[int, NodeRow]) -> set[str]:
    """What the model calls the ops that these nodes stand for."""
    out: set[str] = set()
    seen: set[int] = set()
    pending = list(ids)
    while pending:
        id = pending.pop()
        row = rows.get(id)
        if row is None or id in seen:
            continue
        seen.add(id)
        pending += row.replaces
        if row.pass_name or row.kind == "source":
            continue
        attrs = dict(zip(row.attr_keys, row.attr_values, strict=True))
        layers = str(attrs.get(_LAYERS, "")).split(",")
        out |= {name for name in layers if name} or ({row.name} if row.name else set())
    return out
