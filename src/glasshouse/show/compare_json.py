"""A comparison of two recordings as JSON, for scripts: docs/diff.schema.json says what is in it."""

from __future__ import annotations

import math
from typing import Any

from glasshouse.show.compare import Difference, Side

VERSION = 1


def to_json(difference: Difference, broken: list[str]) -> dict[str, Any]:
    """What changed; figures that were not measured are null. `broken` are limits that B is past."""
    d = difference
    return {
        "version": VERSION,
        "a": _side(d.a),
        "b": _side(d.b),
        "slower": _number(d.slower),
        "slower_at_least": _number(d.surely_slower),
        "worse": _number(d.worse),
        "nodes": {
            "same": d.same,
            "added": d.added,
            "removed": d.removed,
            "changed": [{"name": name, "what": what} for name, what in d.changed],
        },
        "ops": {name: {"a": a, "b": b} for name, (a, b) in d.ops.items()},
        "kernels": [
            {"title": k.title, "where": k.where, "a": _number(k.a), "b": _number(k.b)}
            for k in d.kernels
        ],
        "regions": [
            {
                "ops": list(r.ops),
                "kernels_a": list(r.a),
                "kernels_b": list(r.b),
                "a": _number(r.seconds_a),
                "b": _number(r.seconds_b),
            }
            for r in d.regions
        ],
        "decisions": [{"what": what, "a": a, "b": b} for what, a, b in d.decisions],
        "past_limits": broken,
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "seconds": _number(side.time),
        "wall_seconds": _number(side.wall),
        "error": _number(side.error),
        "passes_seconds": _number(side.compiling),
        "arena_bytes": _number(side.arena),
    }


def _number(value: float) -> float | None:
    """JSON has neither NaN nor infinity."""
    return value if math.isfinite(value) else None
