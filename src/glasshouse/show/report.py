"""What the terminal report says of a recording: passes, kernels by time, fusions, accuracy.

Each section is there only when the recording has data for it, and says where its figures end: what
is not attributed, how many nodes have no source line.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from glasshouse.record.boundary import boundary
from glasshouse.record.graph_view import GraphView
from glasshouse.record.open_file import printable
from glasshouse.record.reader import Recording
from glasshouse.record.schema import (
    NEVER,
    ErrorRow,
    KernelRow,
    NodeRow,
    RejectRow,
    RewriteRow,
    TimeRow,
)
from glasshouse.show.alarms import alarms
from glasshouse.show.figures import counted, cut, cut_left, percent, seconds, short, size, table
from glasshouse.show.priced import advice, kernel_groups, unfused
from glasshouse.show.times import times_of
from glasshouse.show.variants import variants

WALL_TIME = ("wall seconds", "wall time")
"""Facts of the file that may hold the measured time of a whole run."""


def report(recording: Recording, top: int = 15) -> str:
    """The whole report, for a terminal: no name in it can move the cursor or turn the text."""
    with boundary(recording.where, "reported"):
        parts = [_head(recording)]
        for graph in recording.graphs:
            if graph.info.parent == NEVER:
                parts += list(_graph(recording, graph, top))
        return printable("\n\n".join(p for p in parts if p) + "\n")


def _head(recording: Recording) -> str:
    head = recording.header
    lines = [head.title or "recording", f"  made by {head.generator}" if head.generator else ""]
    lines += [f"  {key}: {_readable(key, value)}" for key, value in head.facts.items()]
    return "\n".join(line for line in lines if line)


def _readable(key: str, value: str) -> str:
    """A fact as a person reads it: times and sizes with their units."""
    units = {"seconds": seconds, "spread": seconds, "bytes": size}
    words = key.split(" ")  # "wall seconds", "seconds without clock"
    unit = units.get(words[-1]) or units.get(words[0])
    try:
        return unit(float(value)) if unit else cut(value, 100)
    except ValueError:
        return cut(value, 100)


def _graph(recording: Recording, graph: GraphView, top: int) -> Iterator[str]:
    nodes = graph.stage(-1).nodes
    ops = Counter(
        op
        for op, kind in zip(nodes.pylist("op"), nodes.pylist("kind"), strict=True)
        if kind != "source"
    )
    with_line = int(np.count_nonzero(nodes.array("line")))
    yield (
        f"{graph.name}: {counted(nodes.rows, 'node')}, {counted(ops.total(), 'op')} of "
        f"{counted(len(ops), 'kind')}; "
        f"{percent(with_line / max(1, nodes.rows))} of nodes have a source line\n"
        + table([["op", "count"], *([cut(o, 40), str(n)] for o, n in ops.most_common(top))], [1])
    )
    yield _alarms(recording, graph)
    yield _passes(graph)
    yield _kernels(recording, graph, top)
    yield variants(graph, top)
    yield _fusions(graph, top)
    yield _unfused(recording, graph, top)
    yield _rejects(graph, top)
    yield _opaque(graph, top)
    yield _accuracy(graph, top)
    yield _next(recording, graph)


# --------------------------------------------------------------------------------------- passes
def _passes(graph: GraphView) -> str:
    if len(graph.info.stages) < 2:
        return ""
    rows = [["pass", "time", "nodes", "added", "removed", "changed"]]
    for s, info in enumerate(graph.info.stages):
        view = graph.stage(s)
        added, removed = (set(t.array("id").tolist()) for t in (view.added, view.removed))
        changed = len(added & removed)
        signs = [len(added) - changed, len(removed) - changed, changed] if s else [0, 0, 0]
        time = seconds(info.seconds) if info.seconds > 0 else ""
        counts = [f"{sign}{n}" if n else "" for sign, n in zip(("+", "-", "~"), signs, strict=True)]
        rows.append([info.name, time, str(view.nodes.rows), *counts])
    return "Passes\n" + table(rows, [1, 2, 3, 4, 5])


# -------------------------------------------------------------------------------------- kernels
def _places(graph: GraphView) -> dict[int, NodeRow]:
    """Where each node that anything speaks of comes from: its last row."""
    wanted: set[int] = set(graph.table(TimeRow).array("node").tolist())
    wanted |= set(graph.table(KernelRow).array("node").tolist())
    wanted |= set(graph.table(ErrorRow).array("node").tolist())
    return graph.last_rows(wanted)


def _where(graph: GraphView, node: NodeRow | None) -> str:
    if node is None:
        return ""
    if node.line:
        return f"{node.file.replace(chr(92), '/').rpartition('/')[2]}:{node.line}"
    return cut(".".join(graph.path_of(node)), 40)


def _called(node: NodeRow | None, kernel: KernelRow | None) -> str:
    """The kernel's title where the recording has one; else the op."""
    title = kernel.title if kernel else ""
    return cut_left(title or (node.op if node else "?"), 48)


def _kernels(recording: Recording, graph: GraphView, top: int) -> str:
    times = times_of(graph)
    kernels = list(graph.table(KernelRow))
    places = _places(graph)
    if not times.by_node and not times.by_kernel:
        return _untimed(graph, kernels, places, top)
    total = times.total
    entries = _grouped(recording, graph, total)
    entries += _without_kernel(graph, times.by_node, places, total)
    entries.sort(key=lambda e: -e[0])
    head = ["time", "share", "each", "kernel", "code", "GFLOP/s", "GB/s", "of limit", "error"]
    rows = [[*head, "from"], *(cells for _, cells in entries[:top])]
    rest = sum(e[0] for e in entries[top:])
    more = f"\n  and {len(entries) - top} more: {seconds(rest)}" if len(entries) > top else ""
    run = f" ({times.run})" if times.run else ""
    title = f"Kernels by time{run}, {seconds(total)} in all{_layers(kernels)}"
    text = f"{title}\n{table(rows, [0, 1, 2, 5, 6])}{more}"
    return f"{text}\n{_account(recording, total)}".rstrip()


def _grouped(recording: Recording, graph: GraphView, total: float) -> list[tuple[float, list[str]]]:
    """A row for each group of equal kernels."""
    out = []
    for g in kernel_groups(recording, graph):
        time = g.seconds
        one = seconds(time / g.count) + (f" ± {seconds(g.spread)}" if g.spread else "")
        many = f" x {g.count}" if g.count > 1 else ""
        limit = f"{percent(g.of_limit)} {g.limit}".rstrip() if g.limit_seconds and time else ""
        out.append((time, [
            seconds(time), percent(time / total) if total else "-", one,
            cut_left(g.title, 48) + many, cut(g.code, 24),
            f"{g.flops / time / 1e9:.1f}" if g.flops and time else "",
            f"{g.bytes / time / 1e9:.1f}" if g.bytes and time else "",
            limit, f"{g.error:.0e}" if not math.isnan(g.error) else "", g.where,
        ]))  # fmt: skip
    return out


def _without_kernel(
    graph: GraphView, by_node: Mapping[int, float], places: Mapping[int, NodeRow], total: float
) -> list[tuple[float, list[str]]]:
    """Rows for what was timed as a node: recordings of other tools have no kernels."""
    known = {k.node for k in graph.table(KernelRow)}
    out = []
    for id, time in by_node.items():
        if id not in known:
            node = places.get(id)
            share = percent(time / total) if total else "-"
            named = [_called(node, None), "", "", "", "", "", _where(graph, node)]
            out.append((time, [seconds(time), share, seconds(time), *named]))
    return out


def _layers(kernels: list[KernelRow]) -> str:
    """`; 6 kernels x 12 layers`, where that is what most of them are."""
    counts = Counter(Counter(k.name for k in kernels).values())
    times, number = max(counts.items(), key=lambda e: e[0] * e[1], default=(1, 0))
    return f"; {number} kernels x {times} layers" if times > 1 and number > 1 else ""


def _unfused(recording: Recording, graph: GraphView, top: int) -> str:
    edges = unfused(recording, graph)
    if not edges:
        return ""
    rows = [["price", "each", "bytes", "times", "from", "to", "why not"]]
    for e in edges[:top]:
        price = [seconds(e.seconds), seconds(e.seconds / e.count)]
        ends = [cut_left(e.producer, 32), cut_left(e.consumer, 32)]
        rows.append([*price, size(e.bytes), str(e.count), *ends, cut(e.why, 60)])
    total = sum(e.seconds for e in edges if math.isfinite(e.seconds))
    head = "Between kernels, by the price of going through memory"
    head += f": {seconds(total)} in all" if total else ""
    more = f"\n  and {len(edges) - top} more" if len(edges) > top else ""
    return f"{head}\n{table(rows, [0, 1, 2, 3])}{more}"


def _next(recording: Recording, graph: GraphView) -> str:
    found = advice(recording, graph)[:8]
    if not found:
        return ""
    lines = [f"  {i}. up to {seconds(a.seconds)}: {a.what}" for i, a in enumerate(found, 1)]
    return "\n".join(["What to do next, by the time of a run that it could bring", *lines])


def _alarms(recording: Recording, graph: GraphView) -> str:
    found = alarms(recording, graph)
    return "\n".join(["Alarms", *(f"  {a.kind}: {a.what}" for a in found)]) if found else ""


def _account(recording: Recording, total: float) -> str:
    """The sum over the wall as it is, and what the rest is called."""
    wall = wall_time(recording)
    if wall <= 0:
        return ""
    facts = recording.header.facts
    lines = [
        f"  sum of kernels {seconds(total)} of {seconds(wall)} wall time: {percent(total / wall)}"
    ]
    if "wall spread" in facts:
        apart = seconds(_fact(facts, "wall spread"))
        lines[0] += f"; {facts.get('runs', '?')} runs, middle half within {apart} of the median"
    rest = wall - total
    if "call seconds" in facts:
        parts = [("fallback", "fallback seconds", ", in the sum"), ("copies", "copy seconds", "")]
        named = [
            f"{name} {seconds(_fact(facts, key))}{more}"
            for name, key, more in parts
            if _fact(facts, key) > 0
        ]
        calling = _fact(facts, "call seconds")
        if calling >= 0:
            share = percent(calling / wall)
            named.append(f"calling and returning {seconds(calling)} ({share})")
        else:
            named.append(f"{seconds(-calling)} more than there is ({percent(-calling / wall)})")
        lines.append(f"  besides: {', '.join(named)}")
    elif rest > 0:
        lines.append(f"  {percent(rest / wall)} is not attributed")
    return "\n".join(lines)


def _fact(facts: Mapping[str, str], key: str) -> float:
    try:
        return float(facts.get(key, "0"))
    except ValueError:
        return 0.0


def wall_time(recording: Recording) -> float:
    """Seconds of a whole run, as the recording says; 0 when it does not."""
    facts = recording.header.facts
    text = next((facts[name] for name in WALL_TIME if name in facts), "").split()
    scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6}.get(text[1] if len(text) > 1 else "s", 1.0)
    try:
        return float(text[0]) * scale if text else 0.0
    except ValueError:
        return 0.0


def _untimed(
    graph: GraphView, kernels: list[KernelRow], places: dict[int, NodeRow], top: int
) -> str:
    if not kernels:
        return ""
    kernels.sort(key=lambda k: -(k.flops * k.runs))
    rows = [["kernel", "code", "variant", "ops", "FLOPs", "reads", "writes", "from"]]
    rows += [
        [
            _called(places.get(k.node), k), cut(k.name, 24), cut(k.variant, 20),
            str(len(k.ops)), short(k.flops) if k.flops else "",
            size(k.bytes_read) if k.bytes_read else "",
            size(k.bytes_written) if k.bytes_written else "", _where(graph, places.get(k.node)),
        ]
        for k in kernels[:top]
    ]  # fmt: skip
    more = f"\n  and {len(kernels) - top} more" if len(kernels) > top else ""
    return f"Kernels, {len(kernels)} in all; not timed\n{table(rows, [3, 4, 5, 6])}{more}"


# -------------------------------------------------------------------------------------- fusions
def _fusions(graph: GraphView, top: int) -> str:
    rewrites = graph.table(RewriteRow)
    if not rewrites.rows:
        return ""
    by_rule: dict[tuple[str, str], list[RewriteRow]] = defaultdict(list)
    for row in rewrites:
        by_rule[row.pass_name, row.rule].append(row)
    rows = [["pass", "rule", "times", "nodes", "for instance"]]
    for (name, rule), done in sorted(by_rule.items(), key=lambda e: -len(e[1]))[:top]:
        before, after = (sum(len(getattr(r, k)) for r in done) for k in ("before", "after"))
        why = next((r.why for r in done if r.why), "")
        rows.append([name, cut(rule, 28), str(len(done)), f"{before} -> {after}", cut(why, 60)])
    return f"Rewrites, {rewrites.rows} in all\n{table(rows, [2, 3])}"


def _rejects(graph: GraphView, top: int) -> str:
    rejects = graph.table(RejectRow)
    if not rejects.rows:
        return ""
    by_reason: dict[tuple[str, str], list[RejectRow]] = defaultdict(list)
    for row in rejects:
        by_reason[row.pass_name, row.why].append(row)
    rows = [["pass", "times", "why not"]]
    for (name, why), done in sorted(by_reason.items(), key=lambda e: -len(e[1]))[:top]:
        rows.append([name, str(len(done)), cut(why, 96)])
    more = f"\n  and {len(by_reason) - top} more reasons" if len(by_reason) > top else ""
    return f"Decided against, {rejects.rows} times\n{table(rows, [1])}{more}"


def _opaque(graph: GraphView, top: int) -> str:
    nodes = graph.stage(-1).nodes
    opaque = Counter(
        op
        for op, kind in zip(nodes.pylist("op"), nodes.pylist("kind"), strict=True)
        if kind == "opaque"
    )
    if not opaque:
        return ""
    rows = [["op", "count"], *([cut(op, 60), str(n)] for op, n in opaque.most_common(top))]
    return f"Opaque ops, which no pass can see into: {opaque.total()}\n{table(rows, [1])}"


def _accuracy(graph: GraphView, top: int) -> str:
    last = len(graph.info.stages) - 1
    errors = [e for e in graph.table(ErrorRow) if e.stage == last]
    stages = [e for e in graph.table(ErrorRow) if e.stage != last]
    parts = [_stage_errors(graph, stages), _kernel_errors(graph, errors, top)]
    return "\n\n".join(p for p in parts if p)


def _stage_errors(graph: GraphView, errors: list[ErrorRow]) -> str:
    """One line for each pass; those with the same error as the pass before it are left out."""
    if not errors:
        return ""
    names = [s.name for s in graph.info.stages]
    places = _places(graph)
    rows = [["pass", "error", "allowed", "at", "from"]]
    before: float | None = None
    for e in errors:
        if e.own == before:
            continue
        before = e.own
        node = places.get(e.node)
        name = names[e.stage] if 0 <= e.stage < len(names) else str(e.stage)
        figures = [f"{e.own:.1e}", f"{e.tolerance:.0e}" if e.tolerance else ""]
        rows.append([name, *figures, _called(node, None), _where(graph, node)])
    wrong = next((e for e in errors if 0 < e.tolerance < e.own), None)
    told = f"; first wrong after {names[wrong.stage]}" if wrong else ""
    return f"Passes against the model in float64{told}\n{table(rows, [1, 2])}"


def _kernel_errors(graph: GraphView, errors: list[ErrorRow], top: int) -> str:
    if not errors:
        return ""
    errors.sort(key=lambda e: -_known(e.own))
    places = _places(graph)
    kernels = {k.node: k for k in graph.table(KernelRow)}
    past = sum(0 < e.tolerance < e.own for e in errors)
    rows = [["own error", "allowed", "inherited", "absolute", "relative", "kernel", "from"]]
    for e in errors[:top]:
        node = places.get(e.node)
        allowed = f"{e.tolerance:.1e}" if e.tolerance else ""
        figures = [f"{v:.1e}" for v in (e.inherited, e.max_abs, e.max_rel)]
        called = _called(node, kernels.get(e.node))
        rows.append([f"{e.own:.1e}", allowed, *figures, called, _where(graph, node)])
    told = f"{past} past what rounding explains" if past else "all within rounding"
    checked = any(e.tolerance > 0 for e in errors)
    head = f"Kernels against a float64 replay, {len(errors)} values"
    lines = [f"{head}{f', {told}' if checked else ''}", table(rows, [0, 1, 2, 3, 4])]
    wrong = [e for e in errors if e.wrong]
    if wrong:
        called = _called(places.get(wrong[0].node), kernels.get(wrong[0].node))
        lines.append(
            f"  {len(wrong)} of them are NaN or infinite where they should not be; first {called}: "
            f"{wrong[0].wrong} elements, at {list(wrong[0].at)}"
        )
    return "\n".join(lines)


def _known(value: float) -> float:
    return value if math.isfinite(value) else math.inf
