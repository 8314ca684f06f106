"""The report of a recording as JSON, for scripts: docs/explain.schema.json says what is in it."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from glasshouse.record.reader import Recording
from glasshouse.record.schema import NEVER, ErrorRow
from glasshouse.show.alarms import alarms
from glasshouse.show.priced import advice, kernel_groups, unfused

VERSION = 1


def report_json(recording: Recording) -> dict[str, Any]:
    """Figures that were not measured are null."""
    return {
        "version": VERSION,
        "title": recording.header.title,
        "facts": dict(recording.header.facts),
        "graphs": [
            {
                "name": graph.name,
                "passes": _passes(graph),
                "kernels": [_finite(asdict(g)) for g in kernel_groups(recording, graph)],
                "unfused": [_finite(asdict(e)) for e in unfused(recording, graph)],
                "next": [_finite(asdict(a)) for a in advice(recording, graph)],
                "alarms": [asdict(a) for a in alarms(recording, graph)],
            }
            for graph in recording.graphs
            if graph.info.parent == NEVER
        ],
    }


def _passes(graph: Any) -> list[dict[str, Any]]:
    errors = {e.stage: e for e in graph.table(ErrorRow)}
    last = len(graph.info.stages) - 1
    out = []
    for number, stage in enumerate(graph.info.stages):
        found = errors.get(number) if number != last else None
        row = {
            "name": stage.name, "seconds": stage.seconds, "nodes": graph.stage(number).nodes.rows,
            "error": found.own if found else math.nan,
            "tolerance": found.tolerance if found else math.nan,
        }  # fmt: skip
        out.append(_finite(row))
    return out


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has neither NaN nor infinity: unknown is null, infinite is "inf"."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        bad = isinstance(value, float) and not math.isfinite(value)
        out[key] = ("inf" if value == math.inf else None) if bad else value
    return out
