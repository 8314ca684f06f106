"""What two compilations decided differently: rewrites by rule, variants by kernel; and what a
compilation took."""

from __future__ import annotations

import math
from collections import Counter

from glasshouse.record.graph_view import GraphView
from glasshouse.record.reader import Recording
from glasshouse.record.schema import CandidateRow, KernelRow, RewriteRow


def changed_decisions(a: GraphView, b: GraphView) -> list[tuple[str, str, str]]:
    """(decision, in A, in B): how often rules were applied, and variants where they differ."""
    old, new = (Counter((r.pass_name, r.rule) for r in g.table(RewriteRow)) for g in (a, b))
    out = [
        (f"{name}: {rule}", str(old[name, rule]), str(new[name, rule]))
        for name, rule in sorted(old.keys() | new.keys())
        if old[name, rule] != new[name, rule]
    ]
    before, after = _variants(a), _variants(b)
    out += [
        (f"variant of {title}", before[title], after[title])
        for title in before
        if title in after and before[title] != after[title]
    ]
    return out


def compile_seconds(graph: GraphView) -> float:
    """Seconds of all passes; NaN where none were timed."""
    total = sum(s.seconds for s in graph.info.stages if s.seconds > 0)
    return total or math.nan


def arena_bytes(recording: Recording) -> float:
    """What a run needs for values in between; NaN where it is not said."""
    text = recording.header.facts.get("arena bytes", "")
    return float(text) if text.isdecimal() else math.nan


def _variants(graph: GraphView) -> dict[str, str]:
    titles = {k.id: k.title or k.name for k in graph.table(KernelRow)}
    taken: dict[str, list[str]] = {}
    for row in graph.table(CandidateRow):
        if row.chosen and row.kernel in titles:
            taken.setdefault(titles[row.kernel], []).append(row.variant)
    return {title: ", ".join(names) for title, names in taken.items()}
