"""Which nodes of two graphs are the same one, by what they are called and where they stand.

The rule of the viewer (`query/matching.ts`): a name in its module first, then module, op and type
in order, then module and op, then a name alone. Exporters number names ("relu", "relu_1"): one that
stands in another module now is another op.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glasshouse.record.graph_view import StageView
from glasshouse.record.schema import NEVER


@dataclass(frozen=True)
class Called:
    """What a node is found by."""

    path: str
    name: str
    op: str
    types: tuple[str, ...]


def matched(a: StageView, b: StageView) -> tuple[list[str], list[str]]:
    """A key for each node of both; the same node has the same key."""
    left, right = called(a), called(b)
    placed = all(any(c.path for c in side) for side in (left, right))
    keys_a: list[str] = [""] * len(left)
    keys_b: list[str] = [""] * len(right)

    def pair(key: Callable[[Called], object], same: Callable[[Called, Called], bool]) -> None:
        waiting: dict[object, deque[int]] = defaultdict(deque)
        for i, one in enumerate(left):
            if not keys_a[i] and key(one):
                waiting[key(one)].append(i)
        for j, other in enumerate(right):
            found = waiting.get(key(other)) if not keys_b[j] and key(other) else None
            if found and same(left[found[0]], other):
                keys_a[found[0]] = keys_b[j] = f"{found[0]} and {j}"
                found.popleft()

    def named(x: Called, y: Called) -> bool:
        return x.op == y.op or (any(x.types) and x.types == y.types)

    def always(x: Called, y: Called) -> bool:
        return True

    pair(lambda c: c.name and (c.path if placed else "", c.name), named)
    if placed:
        pair(lambda c: c.path and (c.path, c.op, c.types), always)
        pair(lambda c: c.path and (c.path, c.op), always)
        pair(lambda c: c.name, named)
    pair(lambda c: not c.name and (c.path, c.op), always)
    return _own(keys_a, "A"), _own(keys_b, "B")


def called(stage: StageView) -> list[Called]:
    """What each node of a stage is found by."""
    nodes, paths = stage.nodes, module_paths(stage)
    columns = zip(
        nodes.pylist("groups"), nodes.pylist("name"), nodes.pylist("op"), nodes.pylist("outputs"),
        strict=True,
    )  # fmt: skip
    return [
        Called(paths[groups[0]] if groups else "", name, op, tuple(map(str, types)))
        for groups, name, op, types in columns
    ]


def module_paths(stage: StageView) -> list[str]:
    """The full name of each group."""
    groups = stage.graph.groups
    out: list[str] = []
    for name, parent in zip(groups.pylist("name"), groups.array("parent").tolist(), strict=True):
        out.append(name if parent == NEVER else f"{out[parent]}.{name}")
    return out


def _own(keys: Sequence[str], side: str) -> list[str]:
    return [key or f"{i} of {side} alone" for i, key in enumerate(keys)]
