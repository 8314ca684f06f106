"""Errors of kernels in a recording: values that are not finite count, and are located."""

from __future__ import annotations

import numpy as np

from glasshouse.ir import GraphBuilder
from glasshouse.record.schema import ErrorRow
from glasshouse.runtime.compiler import compile_graph
from glasshouse.show.report import report


def test_a_kernel_that_returns_infinity_is_recorded_as_such() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [2, 3])
    module = compile_graph(builder.finish(x.apply("exp").apply("softmax", axis=0)))
    given = np.zeros((2, 3), np.float32)
    fine = module.recording(given, count=1)
    assert all(0 <= e.own < 1e-5 and not e.wrong for e in fine.graphs[0].table(ErrorRow))
    assert "first wrong" not in fine.header.facts
    given[1, 2] = 100.0  # exp is finite in float64, not in float32
    recording = module.recording(given, count=1)
    errors = list(recording.graphs[0].table(ErrorRow))
    first = errors[0]
    assert first.own == first.max_abs == np.inf
    assert (first.wrong, list(first.at)) == (1, [1, 2])
    assert recording.header.facts["first wrong"].startswith(f"%{first.node} Exp at [1, 2]")
    assert "NaN or infinite where they should not be; first" in report(recording)
