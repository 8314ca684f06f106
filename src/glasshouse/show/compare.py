"""What changed between two graphs: which nodes, ops, time and error, as plain figures.

Stages of one graph are compared by node id. Graphs of two files by what nodes are called and where
they stand (`matching.py`); what is left by structure (an MLP with other names is the same).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from glasshouse.record.boundary import boundary
from glasshouse.record.graph_view import StageView
from glasshouse.record.open_file import printable
from glasshouse.record.reader import Recording
from glasshouse.record.schema import ErrorRow
from glasshouse.show.confidence import InTurns
from glasshouse.show.decisions import arena_bytes, changed_decisions, compile_seconds
from glasshouse.show.figures import cut, cut_left, percent, seconds, size, table
from glasshouse.show.kernel_changes import KernelChange, kernel_changes
from glasshouse.show.matching import matched, module_paths
from glasshouse.show.regions import SharedPart, other_compilers, regions
from glasshouse.show.report import wall_time
from glasshouse.show.structure import structure_keys
from glasshouse.show.times import times_of

Key = str | int
_Described = dict[Key, tuple[str, dict[str, object]]]


@dataclass(frozen=True)
class Side:
    """One of the two: a stage of a graph, with its measurements."""

    recording: Recording
    stage: StageView
    name: str

    @property
    def time(self) -> float:
        """Seconds of all nodes in the first run; NaN when nothing was timed."""
        return times_of(self.stage.graph).total or math.nan

    @property
    def wall(self) -> float:
        return wall_time(self.recording) or math.nan

    @property
    def doubt(self) -> float:
        """The standard error of the time, as a share of it; 0 where spreads were not recorded."""
        facts = self.recording.header.facts
        spreads = times_of(self.stage.graph).spreads.values()
        spread = math.sqrt(sum(s**2 for s in spreads))
        try:
            wall = float(facts.get("wall spread", "0")) / (self.wall or 1.0)
            runs = max(1, int(facts.get("runs", "1")))
        except ValueError:
            return 0.0
        # Half of the middle half is 0.67 of a standard deviation; a median is 1.25 times as unsure
        # as a mean. What slows one kernel slows its neighbours, so the wall's spread counts too.
        share = max(spread / self.time if self.time > 0 else 0.0, wall)
        return share / 0.67 * 1.25 / math.sqrt(runs) if math.isfinite(share) else 0.0

    @property
    def arena(self) -> float:
        """Bytes for values in between; NaN when they are not recorded."""
        return arena_bytes(self.recording)

    @property
    def compiling(self) -> float:
        """Seconds of the passes; NaN when they were not timed."""
        return compile_seconds(self.stage.graph)

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
    measured: InTurns | None = None  # of both programs, in turns on this machine

    @property
    def kernels(self) -> list[KernelChange]:
        """Times by kernel, where both were timed."""
        old, new = ((s.recording, s.stage.graph) for s in (self.a, self.b))
        return kernel_changes(old, new)

    @property
    def regions(self) -> list[SharedPart]:
        """Parts of the model by what both compilers take for them; none if it is one compiler."""
        if not other_compilers(self.a.recording, self.b.recording):
            return []
        old, new = ((s.recording, s.stage.graph) for s in (self.a, self.b))
        return regions(old, new)

    @property
    def decisions(self) -> list[tuple[str, str, str]]:
        """(what, in A, in B): rules and variants that were applied otherwise."""
        same = self.a.stage.graph is self.b.stage.graph
        if same or other_compilers(self.a.recording, self.b.recording):
            return []
        return changed_decisions(self.a.stage.graph, self.b.stage.graph)

    @property
    def nodes(self) -> int:
        """How many nodes differ."""
        return len(self.added) + len(self.removed) + len(self.changed)

    @property
    def slower(self) -> float:
        """Time of B over time of A; NaN unless both were timed."""
        if self.measured is not None:
            return self.measured.deciding.middle
        return self.b.time / self.a.time if self.a.time else math.nan

    @property
    def surely_slower(self) -> float:
        """What B's time over A's is at least, but for noise."""
        if self.measured is not None:
            return self.measured.deciding.low
        room = 3.3 * math.hypot(self.a.doubt, self.b.doubt)
        return self.slower * max(0.0, 1 - room)

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
    ids = (a.stage.nodes.array("id").tolist(), b.stage.nodes.array("id").tolist())
    keys_a, keys_b = ids if by_id else matched(a.stage, b.stage)
    old, new = _described(a.stage, keys_a), _described(b.stage, keys_b)
    if not by_id:
        out.same = _take_alike(a.stage, b.stage, old, new)
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


def _take_alike(a: StageView, b: StageView, old: _Described, new: _Described) -> int:
    """Take out of both what has no counterpart by name but is the same; gives how many."""
    only_old, only_new = old.keys() - new.keys(), new.keys() - old.keys()
    if not only_old or not only_new:
        return 0
    keys_a, keys_b = structure_keys(a), structure_keys(b)
    ids_a, ids_b = (s.nodes.array("id").tolist() for s in (a, b))
    left: dict[str, list[Key]] = {}
    for id, key in zip(ids_a, list(old), strict=True):
        if key in only_old:
            left.setdefault(keys_a[id], []).append(key)
    count = 0
    for id, key in zip(ids_b, list(new), strict=True):
        found = left.get(keys_b[id]) if key in only_new else None
        if found:
            del old[found.pop(0)], new[key]
            count += 1
    return count


def _described(stage: StageView, keys: Sequence[Key]) -> _Described:
    """Each node by its key: what to call it, and what it is."""
    nodes = stage.nodes
    ids, ops, names = nodes.array("id").tolist(), nodes.pylist("op"), nodes.pylist("name")
    paths = module_paths(stage)
    key_of = dict(zip(ids, keys, strict=True))
    out: _Described = {}
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
    for title, x, y, told in (
        ("passes", a.compiling, b.compiling, seconds),
        ("memory in between", a.arena, b.arena, size),
    ):
        if math.isfinite(x) and math.isfinite(y):
            rows.append([title, told(x), told(y), percent(y / x if x else math.nan)])
    if math.isfinite(a.error) or math.isfinite(b.error):
        rows.append(["largest own error", f"{a.error:.1e}", f"{b.error:.1e}", percent(d.worse)])
    if d.measured is not None:
        parts.append(f"In turns on this machine, {d.measured}")
    parts.append(_regions(d.regions, top))
    parts.append(_decisions(d.decisions, top))
    other = other_compilers(a.recording, b.recording)
    changes = [c for c in d.kernels if math.isfinite(c.a) or math.isfinite(c.b)][:top]
    if changes and not other:
        lines = [["kernel", "A", "B", "", "from"]]
        for c in changes:
            many = f" x {max(c.count_a, c.count_b)}" if max(c.count_a, c.count_b) > 1 else ""
            more = ("+" if c.more >= 0 else "-") + seconds(abs(c.more))
            lines.append([cut(c.title, 48) + many, seconds(c.a), seconds(c.b), more, c.where])
        parts.append("Kernels\n" + table(lines, [1, 2, 3]))
    if len(rows) > 1:
        parts.append("Measured\n" + table(rows, [1, 2, 3]))
    return "\n\n".join(p for p in parts if p) + "\n"


def _regions(found: list[SharedPart], top: int) -> str:
    if not found:
        return ""
    faster = [sum(r.seconds_a < r.seconds_b for r in found), sum(r.ratio < 1 for r in found)]
    rows = [["A", "B", "B / A", "kernels of A", "kernels of B"]]
    for r in found[:top]:
        names = [cut_left("; ".join(side), 56) for side in (r.a, r.b)]
        counts = [f"{len(s)}: {n}" for s, n in zip((r.a, r.b), names, strict=True)]
        rows.append([seconds(r.seconds_a), seconds(r.seconds_b), percent(r.ratio), *counts])
    more = f"\n  and {len(found) - top} more" if len(found) > top else ""
    head = f"Parts of the model that both compute, A faster in {faster[0]}, B in {faster[1]}"
    return f"{head}\n{table(rows, [0, 1, 2])}{more}"


def _decisions(found: list[tuple[str, str, str]], top: int) -> str:
    if not found:
        return ""
    rows = [
        ["decision", "A", "B"],
        *([cut(w, 60), cut(x, 40), cut(y, 40)] for w, x, y in found[:top]),
    ]
    more = f"\n  and {len(found) - top} more" if len(found) > top else ""
    return f"Decided otherwise\n{table(rows, [])}{more}"


def _some(title: str, lines: list[str], top: int) -> str:
    if not lines:
        return ""
    more = [f"  and {len(lines) - top} more"] if len(lines) > top else []
    return "\n".join([title, *(f"  {line}" for line in lines[:top]), *more])
