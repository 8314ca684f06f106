"""Real files for the tests of formats, and comparisons of recordings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from glasshouse.record import GraphView, Recording
from glasshouse.record.schema import NEVER, NodeRow

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[2] / "shared" / "data"


def shared(name: str) -> Path:
    """A file of the shared collection; the test is skipped where that is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs the shared data file {name}")
    return path


def group_paths(graph: GraphView) -> list[tuple[str, ...]]:
    """Grouping and names from the outermost, for each group."""
    out: list[tuple[str, ...]] = []
    for group in graph.groups:
        above = out[group.parent] if group.parent != NEVER else (group.grouping,)
        out.append((*above, group.name))
    return out


def rows(graph: GraphView) -> list[Any]:
    """All node rows, with the paths of groups instead of their numbers."""
    paths = group_paths(graph)
    out = []
    for node in graph.table(NodeRow):
        groups = sorted(paths[g] for g in node.groups)
        out.append((node.born, node.id, dataclasses.replace(node, groups=[]), groups))
    return sorted(out, key=lambda r: r[:2])


def same_graphs(one: Recording, two: Recording) -> None:
    """Two recordings say the same of graphs, stages, nodes, edges, attributes and groups."""
    assert [g.info for g in one.graphs] == [g.info for g in two.graphs]
    for a, b in zip(one.graphs, two.graphs, strict=True):
        assert rows(a) == rows(b)
