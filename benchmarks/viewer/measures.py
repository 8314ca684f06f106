"""How what was measured is kept and put into tables: medians, spread, noise, ratios."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from graphs import GRAPHS

NOISE = 0.05
RATES = ("pan", "zoom")
"""Measures of which more is better: frames a second."""


@dataclass
class Samples:
    """Wall seconds (or frames a second), processor seconds and noise of each repeat."""

    values: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    failed: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def text(self) -> str:
        """`~1.20 ±0.10 (0.95)`: median, half the spread, processor seconds."""
        if self.failed or not self.values:
            return self.failed or "-"
        mark = "~" if statistics.median(self.noise) > NOISE else ""
        spread = (max(self.values) - min(self.values)) / 2
        tail = f" ±{spread:.2g}" if len(self.values) > 1 else ""
        return f"{mark}{self.median:.3g}{tail} ({statistics.median(self.cpu):.2g})"


class Measures:
    """All samples by graph, system and what was done; figures that are measured once."""

    def __init__(self) -> None:
        self.samples: dict[tuple[str, str, str], Samples] = {}
        self.single: dict[str, float] = {}
        self.nodes: dict[str, int] = {}

    def of(self, graph: str, system: str, what: str) -> Samples:
        return self.samples.setdefault((graph, system, what), Samples())

    def add(
        self, graph: str, system: str, what: str, value: float, cpu: float, noise: float
    ) -> None:
        kept = self.of(graph, system, what)
        kept.values.append(value)
        kept.cpu.append(cpu)
        kept.noise.append(noise)

    def fail(self, graph: str, system: str, what: str, why: str) -> None:
        self.of(graph, system, what).failed = why

    def has_failed(self, graph: str, system: str, what: str) -> bool:
        return bool(self.of(graph, system, what).failed)

    def say(self, graph: str, system: str) -> None:
        """One line of what is known so far."""
        parts = [
            f"{what} {kept.text()}"
            for (g, s, what), kept in self.samples.items()
            if (g, s) == (graph, system) and (kept.values or kept.failed)
        ]
        print(f"  {system}: {', '.join(parts)}", flush=True)

    def data(self) -> dict[str, Any]:
        """All of it, as plain data."""
        rows = [
            {"graph": g, "system": s, "what": w, "failed": k.failed, "values": k.values,
             "cpu_s": k.cpu, "noise": k.noise}
            for (g, s, w), k in self.samples.items()
            if k.values or k.failed
        ]  # fmt: skip
        return {"nodes": self.nodes, "single": self.single, "samples": rows}


def _ratio(measures: Measures, graph: str, what: str) -> str:
    """The best peer over ours by wall time and by processor time; above 1 we are faster."""
    ours = measures.of(graph, "glasshouse", what)
    peers = [
        k
        for (g, s, w), k in measures.samples.items()
        if (g, w) == (graph, what) and s != "glasshouse" and k.values and not k.failed
    ]
    if not peers or not ours.values:
        return "-"
    if what in RATES:
        return f"{ours.median / max(p.median for p in peers):.1f}"
    wall = min(p.median for p in peers) / ours.median
    cpu = min(statistics.median(p.cpu) for p in peers) / statistics.median(ours.cpu)
    return f"{wall:.1f} ({cpu:.1f})"


def table(measures: Measures, systems: list[str]) -> str:
    """Markdown: a row for each graph and action."""
    head = ["graph", "nodes", "action", *systems, "best peer / ours", "asked of us"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    actions = {"open": 0, "unfold": 1, "flatten": 2, "one group": 3, "pan": 4, "zoom": 5}
    for name, nodes in measures.nodes.items():
        asked = [*(f"{t:g} s" for t in GRAPHS[name].asked), "at once", "30 a second", "30 a second"]
        for what, number in actions.items():
            cells = [measures.of(name, s, what).text() for s in systems]
            if all(c == "-" for c in cells):
                continue
            row = [GRAPHS[name].title, f"{nodes:,}", what, *cells, _ratio(measures, name, what)]
            lines.append(f"| {' | '.join([*row, asked[number]])} |")
    return "\n".join(lines)


def single_figures(measures: Measures) -> str:
    """What is measured of us alone: sizes, `glasshouse html`, search."""
    lines = []
    for name, value in measures.single.items():
        lines.append(f"{name}: {value:.1f} s" if "seconds" in name else f"{name}: {value:,.0f} B")
    search = measures.of("100k", "glasshouse", "search")
    if search.values:
        lines.append(f"search over 100,000 nodes, first results: {search.text()} s (asked: 0.2 s)")
    return "\n".join(lines)
