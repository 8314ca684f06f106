"""What a recording should alarm its reader of, without being asked: wrong passes, kernels that are
further off than rounding explains, NaN, ops that run through Python, and slow outliers."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass

from glasshouse.record.graph_view import GraphView
from glasshouse.record.reader import Recording
from glasshouse.record.schema import ErrorRow, KernelRow
from glasshouse.show.figures import seconds
from glasshouse.show.priced import limits_of
from glasshouse.show.times import Times, times_of

OUTLIER = 1.5
"""Times the median of equal kernels, and three spreads beyond it; 5 us at least."""
_LEAST, _EQUAL = 5e-6, 4


SKIPPED = 5.0
"""Operations that a variant may leave out: Winograd's F(4, 3) needs a fourth."""
_CLOCK = 1e-6
"""Seconds that two clocks may be apart."""


@dataclass(frozen=True)
class Alarm:
    """`kind`: pass, kernel, NaN, fallback, slow, time."""

    kind: str
    what: str


def alarms(recording: Recording, graph: GraphView) -> list[Alarm]:
    """All of them, faults of numbers first."""
    out = _errors(graph)
    facts = recording.header.facts
    out += [Alarm("NaN", facts[k]) for k in ("first wrong", "NaN of the model") if k in facts]
    kernels = list(graph.table(KernelRow))
    slow = [k for k in kernels if k.variant == "fallback" or k.name.startswith("fallback_")]
    if slow:
        names = ", ".join(dict.fromkeys(k.title or k.name for k in slow[:5]))
        why = str(slow[0].code).removeprefix("// ")
        out.append(Alarm("fallback", f"{len(slow)} steps run through Python: {names} ({why})"))
    times = times_of(graph)
    return out + _outliers(times, kernels) + _impossible(recording, times, kernels)


def _errors(graph: GraphView) -> list[Alarm]:
    last = len(graph.info.stages) - 1
    names = [s.name for s in graph.info.stages]
    titles = {k.node: k.title or k.name for k in graph.table(KernelRow)}
    out = []
    rows = list(graph.table(ErrorRow))
    wrong = next((e for e in rows if e.stage != last and 0 < e.tolerance < e.own), None)
    if wrong is not None and 0 <= wrong.stage < len(names):
        what = f"{names[wrong.stage]} changes what the model computes: error {wrong.own:.1e}"
        out.append(Alarm("pass", f"{what}, allowed {wrong.tolerance:.0e}"))
    past = [e for e in rows if e.stage == last and 0 < e.tolerance < e.own]
    for e in past[:3]:
        what = f"{titles.get(e.node, f'%{e.node}')}: own error {e.own:.1e}"
        out.append(Alarm("kernel", f"{what}, rounding explains {e.tolerance:.1e}"))
    return out


def _impossible(recording: Recording, times: Times, kernels: list[KernelRow]) -> list[Alarm]:
    """Kernels that took less time than the machine needs for their operations."""
    limits = limits_of(recording.header.facts)
    fastest = max((v for k, v in limits.items() if k not in ("read", "copy")), default=0.0)
    out = []
    for k in kernels:
        least = k.flops * k.runs / fastest / SKIPPED if fastest else 0.0
        took = times.by_kernel.get(k.id, math.inf)
        if took < least and least > _CLOCK:
            what = f"{k.title or k.name} takes {seconds(took)}, and this machine needs at least "
            what += f"{seconds(least)} for its operations: the time is not its own"
            out.append(Alarm("time", what))
    return out


def _outliers(times: Times, kernels: list[KernelRow]) -> list[Alarm]:
    """Kernels that take longer than their equals in other layers."""
    took = times.by_kernel
    alike: dict[tuple[str, float, float], list[KernelRow]] = defaultdict(list)
    for k in kernels:
        if k.id in took:
            alike[k.name, k.flops, k.bytes_read + k.bytes_written].append(k)
    out = []
    for many in alike.values():
        if len(many) < _EQUAL:
            continue
        middle = statistics.median(took[k.id] for k in many)
        room = 3 * statistics.median(times.spreads[k.id] for k in many)
        for k in many:
            beyond = middle + room + 3 * times.spreads[k.id]
            if took[k.id] > max(OUTLIER * middle, beyond, _LEAST):
                what = f"{k.title or k.name} takes {seconds(took[k.id])}"
                out.append(
                    Alarm("slow", f"{what}, its {len(many) - 1} equals {seconds(middle)} each")
                )
    return out
