"""What looking costs, on BERT-base: the size of its page, and recording beside compiling."""

from __future__ import annotations

import resource
import statistics
import time
from pathlib import Path

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.ir.graph import Graph
from glasshouse.nn import models
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program
from glasshouse.record.schema import ErrorRow, KernelRow, TimeRow
from glasshouse.runtime.compiler import compile_optimized

WORDS = np.random.default_rng(0).integers(1, 2000, (1, 128))
"""Of 2,000: a page shows no weights, so a vocabulary of 30,000 would only take time."""
PLAIN = {"resolve_variant": {"measure": "none"}}


@pytest.fixture(scope="module")
def graph() -> Graph:
    gh.manual_seed(0)
    return gh.trace(models.Bert(models.BertConfig(vocab_size=2000)).eval(), WORDS)


def seconds(graph: Graph, record: bool) -> float:
    """Processor time of the passes."""
    context = PassContext(options=PLAIN)
    watched = context.record() if record else None
    begin = time.process_time()
    optimize_program(graph, context)
    if watched is not None:
        assert watched.recording is not None  # its rows are written when it is asked for
    return time.process_time() - begin


@pytest.mark.slow
def test_recording_costs_a_tenth_of_compiling_at_most(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [(seconds(graph, False), seconds(graph, True)) for _ in range(7)]
    more = statistics.median(b - a for a, b in turns)
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path))  # so that all kernels are built
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.process_time()
    compile_optimized(graph, "cpu", tune=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    building = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    whole = time.process_time() - begin + building
    print(f"recording {more:.3f} s of {whole:.2f} s of processor time")
    assert more <= 0.1 * whole


@pytest.mark.slow
def test_a_page_of_everything_is_below_two_megabytes(graph: Graph, tmp_path: Path) -> None:
    recording = compile_optimized(graph, "cpu", tune=False).recording(WORDS, count=1)
    rows = recording.graphs[0]
    assert rows.table(KernelRow).rows > 60
    assert rows.table(TimeRow).rows == rows.table(KernelRow).rows
    assert rows.table(ErrorRow).rows > 60
    page = gh.plot_graph(recording, tmp_path / "bert.html")
    print(f"{page.stat().st_size / 1e6:.2f} MB")
    assert page.stat().st_size < 2_000_000
