"""What changed between two graphs: which nodes, ops, time and error, as plain figures.

Stages of one graph are compared by node id. Graphs of two files by name; nodes without one by
module path and op, in order.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from glasshouse.record.boundary import boundary
from glasshouse.record.open_file import printable
from glasshouse.record.reader import Recording, StageView
from glasshouse.record.schema import NEVER, ErrorRow
from glasshouse.show.figures import cut, percent, seconds, table
from glasshouse.show.report import times_of, wall_time

Key = str | int


@dataclass(frozen=True)
class Side:
    """One of the two: a stage of a graph, with its measurements."""

    recording: Recording
    stage: StageView
    name: str

    @property
    def time(self) -> float:
        """Seconds of all nodes in the first run; NaN when nothing was timed."""
        _, by_node, by_kernel = times_of(self.stage.graph)
        return sum(by_node.values()) or sum(by_kernel.values()) or math.nan

    @property
    def wall(self) -> float:
        return wall_time(self.recording) or math.nan

    @property
    def error(self) -> float:
        """Largest error of any node's own; NaN when none was measured."""
        own = [e.own for e in self.stage.graph.table(ErrorRow)]
        return max(own, default=math.nan)


@dataclass
class Difference:
    """What distinguishes B from A."""

    a: Side
    b: Side
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[tuple[str, str]] = field(default_factory=list)  # name, what
    same: int = 0
    ops: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        """How many nodes differ."""
        return len(self.added) + len(self.removed) + len(self.changed)

    @property
    def slower(self) -> float:
        """Time of B over time of A; NaN unless both were timed."""
        return self.b.time / self.a.time if self.a.time else math.nan

    @property
    def worse(self) -> float:
        """Largest error of B over that of A; NaN unless both were measured."""
        if self.a.error == 0:
            return 1.0 if self.b.error == 0 else math.inf
        return self.b.error / self.a.error


def compare(a: Side, b: Side) -> Difference:
    """All differences of two stages."""
    with boundary(f"{a.name} and {b.name}", "compared"):
        return _compare(a, b)


def _compare(a: Side, b: Side) -> Difference:
    by_id = a.recording is b.recording and a.stage.graph.index == b.stage.graph.index
    out = Difference(a, b)
    old, new = _described(a.stage, by_id), _described(b.stage, by_id)
    for key, (name, facts) in new.items():
        if key not in old:
            out.added.append(name)
        elif facts == old[key][1]:
            out.same += 1
        else:
            before = old[key][1]
            what = [k for k in facts if facts[k] != before[k]]
            out.changed.append((name, ", ".join(what)))
    out.removed = [name for key, (name, _) in old.items() if key not in new]
    counts = [Counter(s.stage.nodes.pylist("op")) for s in (a, b)]
    for op in sorted(counts[0] | counts[1]):
        if counts[0][op] != counts[1][op]:
            out.ops[op] = (counts[0][op], counts[1][op])
    return out


def _described(stage: StageView, by_id: bool) -> dict[Key, tuple[str, dict[str, object]]]:
    """Each node by its key: what to call it, and what it is."""
    nodes = stage.nodes
    ids, ops, names = nodes.array("id").tolist(), nodes.pylist("op"), nodes.pylist("name")
    paths = _paths(stage)
    keys: list[Key] = []
    seen: Counter[str] = Counter()
    shared = Counter(
        names
    )  # kernels of equal layers are called alike: their module tells them apart
    for id, op, name, groups in zip(ids, ops, names, nodes.pylist("groups"), strict=True):
        alone = name and shared[name] == 1
        base = name if alone else f"{paths[groups[0]] if groups else ''}/{name or op}"
        nth = seen[base]
        seen[base] += 1
        keys.append(id if by_id else f"{base} {nth}" if nth else base)
    key_of = dict(zip(ids, keys, strict=True))
    out: dict[Key, tuple[str, dict[str, object]]] = {}
    columns = zip(
        keys, ids, ops, names, nodes.pylist("outputs"), nodes.pylist("input_nodes"),
        nodes.pylist("input_ports"), nodes.pylist("attr_keys"), nodes.pylist("attr_values"),
        nodes.pylist("groups"), strict=True,
    )  # fmt: skip
    for key, id, op, name, types, inputs, ports, attrs, values, groups in columns:
        where = paths[groups[0]] if groups else ""
        called = f"{op} {name or f'%{id}'}{f' in {where}' if where and not name else ''}"
        facts: dict[str, object] = {
            "op": op,
            "type": types,
            "inputs": [(key_of.get(i, i), p) for i, p in zip(inputs, ports, strict=True)],
            "attributes": dict(zip(attrs, values, strict=True)),
        }
        out[key] = (called, facts)
    return out


def _paths(stage: StageView) -> list[str]:
    groups = stage.graph.groups
    out: list[str] = []
    for name, parent in zip(groups.pylist("name"), groups.array("parent").tolist(), strict=True):
        out.append(name if parent == NEVER else f"{out[parent]}.{name}")
    return out


def describe(d: Difference, top: int = 12) -> str:
    """The difference in words, for a terminal."""
    with boundary(f"{d.a.name} and {d.b.name}", "compared"):
        return printable(_describe(d, top))


def _describe(d: Difference, top: int) -> str:
    a, b = d.a, d.b
    only = f"{len(d.removed)} only in A, {len(d.added)} only in B"
    parts = [
        f"A  {a.name}: {a.stage.nodes.rows} nodes\nB  {b.name}: {b.stage.nodes.rows} nodes",
        f"{d.same} nodes are the same, {only}, {len(d.changed)} changed",
    ]
    if d.ops:
        rows = [["op", "A", "B", ""]]
        ranked = sorted(d.ops.items(), key=lambda e: -abs(e[1][1] - e[1][0]))
        rows += [[cut(o, 40), str(x), str(y), f"{y - x:+d}"] for o, (x, y) in ranked[:top]]
        parts.append("Ops\n" + table(rows, [1, 2, 3]))
    for title, sign, names in (("Only in A", "-", d.removed), ("Only in B", "+", d.added)):
        parts.append(_some(title, [f"{sign} {cut(n, 100)}" for n in names], top))
    parts.append(_some("Changed", [f"~ {cut(n, 80)} ({w})" for n, w in d.changed], top))
    rows = [["", "A", "B", "B / A"]]
    for title, x, y, ratio in (
        ("sum of kernels", a.time, b.time, d.slower),
        ("wall time", a.wall, b.wall, b.wall / a.wall if a.wall else math.nan),
    ):
        if math.isfinite(x) or math.isfinite(y):
            rows.append([title, seconds(x), seconds(y), percent(ratio)])
    if math.isfinite(a.error) or math.isfinite(b.error):
        rows.append(["largest own error", f"{a.error:.1e}", f"{b.error:.1e}", percent(d.worse)])
    if len(rows) > 1:
        parts.append("Measured\n" + table(rows, [1, 2, 3]))
    return "\n\n".join(p for p in parts if p) + "\n"


def _some(title: str, lines: list[str], top: int) -> str:
    if not lines:
        return ""
    more = [f"  and {len(lines) - top} more"] if len(lines) > top else []
    return "\n".join([title, *(f"  {line}" for line in lines[:top]), *more])
