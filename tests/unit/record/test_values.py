"""What a tensor held: exact range and NaNs, a histogram, nothing for what has no numbers."""

from __future__ import annotations

import numpy as np

import glasshouse as gh
from glasshouse import nn
from glasshouse.record.schema import SummaryRow
from glasshouse.record.values import BINS, MOST, summary_of


def test_range_moments_and_oddities() -> None:
    row = summary_of(3, 1, np.array([0.0, -2.0, 6.0, np.nan, np.inf], np.float32))
    assert row is not None
    assert (row.node, row.port, row.minimum, row.maximum) == (3, 1, -2.0, 6.0)
    assert (row.nans, row.infs, row.zeros) == (1, 1, 1)
    assert sum(row.histogram) == 3
    assert len(row.histogram) == BINS
    assert row.sample.startswith("0, -2, 6, nan")


def test_long_tensors_are_seen_whole_for_their_range() -> None:
    array = np.zeros(3 * MOST, np.float16)
    array[1] = 7
    row = summary_of(0, 0, array)
    assert row is not None
    assert row.maximum == 7.0
    assert 0 < sum(row.histogram) <= MOST


def test_what_has_no_numbers_has_no_row() -> None:
    assert summary_of(0, 0, np.zeros((0, 4), np.float32)) is None
    assert summary_of(0, 0, np.array(["a"])) is None
    alike = summary_of(0, 0, np.array([np.nan], np.float32))
    assert alike is not None
    assert alike.histogram == []
    assert np.isnan(alike.mean)


def test_a_measured_module_keeps_weights_and_results() -> None:
    layer = nn.Linear(3, 4, bias=False)
    module = gh.compile(layer, np.ones((2, 3), np.float32))
    graph = module.recording(np.ones((2, 3), np.float32), count=1).graphs[0]
    held = {r.node: r for r in graph.table(SummaryRow)}
    nodes = {n.id: n for n in graph.stage(-1).nodes}
    assert {nodes[i].kind for i in held} >= {"source", "matmul"}
