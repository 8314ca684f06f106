"""What is decided by timing: variants of kernels, and whether kernels overlap; on a driver that
runs kernels without a GPU."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import glasshouse as gh
from fake_cuda import FakeCuda, fake_cuda
from glasshouse.backend.base import backend_named
from glasshouse.backend.cuda import measure as measuring
from glasshouse.backend.cuda.device import Gpu
from glasshouse.lower.choice import Problem
from glasshouse.passes import tune


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        yield fake


def test_variants_are_run_over_several_weights_and_compared(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_COPIES", (2, 2))
    monkeypatch.setattr(measuring, "_TURNS", 1)
    names = ("mma32x32x128", "wgmma64x32x64_join2")
    problem = Problem("matmul", "float16", (20, 24, 256, 1), 1e9)
    gc.collect()  # modules of other tests
    before = cuda.taken
    found = backend_named("cuda").measure(problem, names)
    assert found is not None
    assert [c.name for c in found] == list(names)
    assert all(c.error == 0.0 and c.seconds > 0 for c in found), "they agree, and took some time"
    launches = sum(call == "cuGraphAddKernelNode_v2" for call in cuda.calls)
    assert launches == 2 * len(names)
    assert cuda.taken == before, "all memory is given back"


def test_kernels_of_several_problems_are_built_together(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tune, "made_cache_folder", lambda: tmp_path)
    backend = backend_named("cuda")
    texts: list[str] = []
    monkeypatch.setattr(measuring, "cubin_of", lambda text, name, arch: texts.append(text))
    small, other, tiny = (
        Problem("matmul", "float16", (20, n, 256, 1), worth)
        for n, worth in ((24, 1e9), (40, 1e9), (8, 1.0))
    )
    names = ("mma32x32x128", "mma64x32x64")
    tuner = tune.Tuner(backend)
    tuner.expect([(small, names)])
    assert texts == [], "one problem is built when it is measured"
    tuner.expect([(small, names), (other, names), (other, names), (tiny, names)])
    assert len(texts) == len(set(texts)) == 4, "those that are measured, each variant once"
    rows = [[name, 1.0, 0.0] for name in names]
    tuner.file(small).write_text(json.dumps({"measured": rows}))
    texts.clear()
    tuner.expect([(small, names), (other, names)])
    assert texts == [], "what is known on disk is not built"


def test_a_variant_that_is_wrong_is_not_taken(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = iter([np.ones(4), np.full(4, 1.5), np.full(4, np.nan)])
    monkeypatch.setattr(measuring._Probe, "__init__", lambda self, *given: None)
    monkeypatch.setattr(measuring._Probe, "result", lambda self: next(results))
    monkeypatch.setattr(measuring._Probe, "turn", lambda self: 1e-6)
    monkeypatch.setattr(measuring, "cubin_of", lambda *given: b"")
    names = ("mma32x32x128", "mma64x32x64", "mma64x64x64")
    problem = Problem("matmul", "float16", (20, 24, 256, 1), 1e9)
    found = backend_named("cuda").measure(problem, names)
    assert found is not None
    exact, off, broken = (c.error for c in found)
    assert exact == 0.0
    assert off > 0.4
    assert not broken <= 1.0, "no number is no result"


def test_the_variant_that_others_disagree_with_is_wrong(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one too, which is the usual choice."""
    results = iter([np.full(4, 1.5), np.ones(4), np.ones(4)])
    monkeypatch.setattr(measuring._Probe, "__init__", lambda self, *given: None)
    monkeypatch.setattr(measuring._Probe, "result", lambda self: next(results))
    monkeypatch.setattr(measuring._Probe, "turn", lambda self: 1e-6)
    monkeypatch.setattr(measuring, "cubin_of", lambda *given: b"")
    names = ("mma32x32x128", "mma64x32x64", "mma64x64x64")
    problem = Problem("matmul_gelu", "float16", (20, 24, 256, 1), 1e9)
    found = backend_named("cuda").measure(problem, names)
    assert found is not None
    assert [c.error > 0.4 for c in found] == [True, False, False]


@pytest.mark.parametrize("with_overlap", [0.4, 0.6])
def test_kernels_overlap_where_that_is_faster(
    with_overlap: float, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLASSHOUSE_OVERLAP")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1))
    x = torch.randn(4, 8)
    module = gh.compile(model, x, target="cuda", progress=False)
    times = iter([0.5, with_overlap] * 3)
    monkeypatch.setattr(Gpu, "seconds_between", lambda self, begin, end: next(times))
    torch.testing.assert_close(module(x), model(x).detach())
    assert next(times, None) is None, "both ways were timed, in turns"
    launched = cuda.calls.count("cuGraphLaunch")
    module(x)
    assert cuda.calls.count("cuGraphLaunch") == launched + 1, "it is decided once"
    assert module._executable.loaded.last._overlapping == (with_overlap < 0.5)
