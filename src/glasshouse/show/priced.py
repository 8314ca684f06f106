"""What a recording's time goes to, by equal kernels of all layers; what edges between kernels cost;
and what is worth doing next, by the time that it would bring."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from glasshouse.record.graph_view import GraphView
from glasshouse.record.reader import Recording
from glasshouse.record.schema import (
    BufferRow,
    ErrorRow,
    KernelRow,
    NodeRow,
    RejectRow,
)
from glasshouse.record.titles import short_path
from glasshouse.show.figures import percent, seconds, size
from glasshouse.show.times import times_of

LATENCY = 3e-6
"""Seconds: a kernel that could be done sooner is held up by its start, not by the machine."""
_NUMBER = re.compile(r"(?<!× )\b\d+\b")


@dataclass(frozen=True)
class KernelGroup:
    """Kernels with one code, at the same place of each layer."""

    title: str
    code: str
    where: str
    count: int
    seconds: float  # of all
    spread: float  # of one
    flops: float
    bytes: float
    limit_seconds: float
    limit: str  # compute, memory, latency; "" where it is not known
    error: float  # the largest own one; NaN where none was measured
    weights: float  # bytes of constants that it reads

    @property
    def of_limit(self) -> float:
        return self.limit_seconds / self.seconds if self.seconds else math.nan


@dataclass(frozen=True)
class Edge:
    """A value that goes through memory because two ops are in different kernels."""

    producer: str
    consumer: str
    why: str
    count: int
    bytes: float  # of one
    seconds: float  # of all, by the fastest rate that was seen for so many bytes


@dataclass(frozen=True)
class Advice:
    """Something to do, and the seconds of a run that it could bring."""

    what: str
    seconds: float


def limits_of(facts: Mapping[str, str]) -> dict[str, float]:
    """Operations and bytes a second, by the names of the facts: "float32", "read", "copy"."""
    out: dict[str, float] = {}
    for key, text in facts.items():
        if key.startswith("limit "):
            try:
                out[key.removeprefix("limit ")] = float(text.split()[0]) * 1e9
            except (ValueError, IndexError):
                continue
    return out


def kernel_groups(recording: Recording, graph: GraphView) -> list[KernelGroup]:
    """The kernels that were timed, the costliest first."""
    measured = times_of(graph)
    times, spreads = measured.by_kernel, measured.spreads
    limits = limits_of(recording.header.facts)
    places = nodes_of(graph)
    weights = _weights(graph)
    errors: dict[int, float] = {}
    for e in graph.table(ErrorRow):
        errors[e.node] = max(errors.get(e.node, 0.0), e.own)
    by_key: dict[tuple[str, str], list[KernelRow]] = defaultdict(list)
    for kernel in graph.table(KernelRow):
        if kernel.id in times:
            by_key[kernel.name, _NUMBER.sub("*", kernel.title)].append(kernel)
    out = []
    for (code, title), kernels in by_key.items():
        total = sum(times[k.id] for k in kernels)
        node = places.get(kernels[0].node)
        flops, moved = (
            sum(f * k.runs for k, f in zip(kernels, figures, strict=True))
            for figures in (
                [k.flops for k in kernels],
                [k.bytes_read + k.bytes_written for k in kernels],
            )
        )
        least = sum(k.limit_seconds * k.runs for k in kernels)
        out.append(
            KernelGroup(
                title if len(kernels) > 1 else kernels[0].title or kernels[0].name, code,
                _where(node), len(kernels), total,
                max((spreads[k.id] for k in kernels), default=0.0), flops, moved, least,
                _limit(flops, moved, least, total, len(kernels), limits),
                max((errors[k.node] for k in kernels if k.node in errors), default=math.nan),
                sum(weights.get(i, 0.0) for k in kernels if (n := places.get(k.node))
                    for i in n.input_nodes),
            )
        )  # fmt: skip
    return sorted(out, key=lambda g: -g.seconds)


def unfused(recording: Recording, graph: GraphView) -> list[Edge]:
    """Edges that no kernel spans, alike ones together, by what their bytes cost."""
    rates = _rates(recording, graph)
    places = nodes_of(graph, everywhere=True)
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in graph.table(RejectRow):
        numbers = _numbers(row.numbers)
        if row.rule != "fuse" or len(row.nodes) != 2 or "bytes" not in numbers:
            continue
        ends = [_name(graph, places.get(n)) for n in row.nodes]
        found[ends[0], ends[1], _NUMBER.sub("*", row.why)].append(numbers["bytes"])
    edges = [
        Edge(a, b, why, len(many), max(many), sum(_price(bytes, rates) for bytes in many))
        for (a, b, why), many in found.items()
    ]
    return sorted(edges, key=lambda e: (-e.bytes * e.count, e.producer))


def _rates(recording: Recording, graph: GraphView) -> tuple[list[float], list[float]]:
    """Numbers of bytes, ascending, and for each the fastest rate at which so many or more have been
    seen to move: by the machine's copies, and by kernels of this model, whose operands may lie in a
    cache. Nothing where the machine's copies are not known."""
    limits = limits_of(recording.header.facts)
    speed = limits.get("copy") or limits.get("read")
    if not speed:
        return [], []
    times = times_of(graph).by_kernel
    seen = [(math.inf, speed)]
    for kernel in graph.table(KernelRow):
        moved = kernel.bytes_read + kernel.bytes_written
        if times.get(kernel.id):
            seen.append((moved, moved * kernel.runs / times[kernel.id]))
    seen.sort(reverse=True)
    fastest = list(accumulate((rate for _, rate in seen), max))
    return [moved for moved, _ in reversed(seen)], fastest[::-1]


def _price(bytes: float, rates: tuple[list[float], list[float]]) -> float:
    """Seconds to write a value and to read it again."""
    moved, fastest = rates
    return 2 * bytes / fastest[bisect_left(moved, 2 * bytes)] if moved else math.nan


def advice(recording: Recording, graph: GraphView) -> list[Advice]:
    """What could be done, by the time that it would bring; nothing below a hundredth of a run."""
    facts = recording.header.facts
    groups = kernel_groups(recording, graph)
    total = sum(g.seconds for g in groups)
    wall = _number(facts.get("wall seconds", "")) or total
    out: list[Advice] = []
    for g in groups:
        many = f" x {g.count}" if g.count > 1 else ""
        if g.code.startswith("fallback"):
            what = f"{g.title} runs through Python: {seconds(g.seconds / g.count)}{many}"
            out.append(Advice(what, g.seconds))
        elif g.limit in ("compute", "memory") and g.of_limit < 0.5:
            what = (
                f"{g.title} ({g.where}): at {percent(g.of_limit)} of what {g.limit} allows, "
                f"{seconds(g.seconds / g.count)}{many}"
            )
            out.append(Advice(what, g.seconds - 2 * g.limit_seconds))
    for e in unfused(recording, graph):
        if e.seconds > 0:
            many = f" x {e.count}" if e.count > 1 else ""
            what = (
                f"{e.consumer} behind {e.producer} is a pass over {size(e.bytes)}: "
                f"{seconds(e.seconds / e.count)}{many} that fusing would save; not fused: {e.why}"
            )
            out.append(Advice(what, e.seconds))
    reading = sum(g.seconds * min(1.0, g.weights / g.bytes) for g in groups
                  if g.limit == "memory" and g.bytes)  # fmt: skip
    if reading and facts.get("precision", "float32") == "float32":
        what = (
            f"{percent(reading / total)} of the kernels' time is reading weights; bf16 "
            "(--precision bf16) would halve it, with an error of about 3e-3"
        )
        out.append(Advice(what, reading / 2))
    calling = _number(facts.get("call seconds", ""))
    if calling > 0.1 * wall:
        out.append(
            Advice(f"{percent(calling / wall)} of a call is not kernels: give it more at once "
                   "(a larger batch), or call it less often", calling)
        )  # fmt: skip
    kept = [a for a in out if a.seconds >= 0.01 * wall]
    return sorted(kept, key=lambda a: -a.seconds)


def nodes_of(graph: GraphView, everywhere: bool = False) -> dict[int, NodeRow]:
    """The last row of every node that a kernel computes; `everywhere`, of edges' as well."""
    wanted = set(graph.table(KernelRow).array("node").tolist())
    if everywhere:
        wanted |= {n for row in graph.table(RejectRow) for n in row.nodes}
    return graph.last_rows(wanted)


def _limit(
    flops: float, moved: float, least: float, time: float, count: int, limits: Mapping[str, float]
) -> str:
    peak, speed = limits.get("float32", 0.0), max(limits.get("read", 0.0), limits.get("copy", 0.0))
    if not least or not peak or not speed:
        return ""
    if least / count < LATENCY and time > 2 * least and time / count < 10 * LATENCY:
        return "latency"
    return "compute" if flops / peak > moved / speed else "memory"


def _weights(graph: GraphView) -> dict[int, float]:
    """Bytes of every constant, by its node."""
    out: dict[int, float] = {}
    for row in graph.table(BufferRow):
        if row.place in ("constant", "prepared"):
            out[row.node] = max(out.get(row.node, 0.0), row.bytes)
    return out


def _name(graph: GraphView, node: NodeRow | None) -> str:
    """`layer.* output.LayerNorm`, or the op where the module says no more."""
    if node is None:
        return "?"
    where = _NUMBER.sub("*", short_path(graph.path_of(node)))
    return f"{node.op} in {where}" if where else node.op


def _where(node: NodeRow | None) -> str:
    if node is None or not node.line:
        return ""
    return f"{node.file.replace(chr(92), '/').rpartition('/')[2]}:{node.line}"


def _numbers(text: str) -> dict[str, float]:
    """The figures of a decision; none where a file has something else there."""
    try:
        read = json.loads(text) if text else {}
        return {k: float(v) for k, v in read.items() if isinstance(v, (int, float))}
    except (ValueError, AttributeError, OverflowError, RecursionError):
        return {}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
