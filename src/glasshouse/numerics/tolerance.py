"""Which error is still rounding, by the narrowest floating type that a graph has."""

from __future__ import annotations

from glasshouse.ir.dtype import bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, float64
from glasshouse.ir.graph import Graph

_TOLERANCE = {
    float64: 1e-10, float32: 1e-5, float16: 1e-2, bfloat16: 6e-2,
    float8_e4m3fn: 0.25, float8_e5m2: 0.5,
}  # fmt: skip
"""Of `Error.scaled`. About 100 units in the last place for float32, 10 for half floats,
4 for float8."""


def tolerance_of(graph: Graph) -> float:
    """The tolerance for a graph's outputs, bodies of fused nodes included."""
    worst = 0.0
    pending = [graph]
    while pending:
        for node in pending.pop().nodes:
            for value in node.outputs:
                worst = max(worst, _TOLERANCE.get(value.type.dtype, 0.0))
            pending += [v for v in node.attrs.values() if isinstance(v, Graph)]
    return worst or 1e-10
