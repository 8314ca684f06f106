"""What is decided by timing: variants of kernels, and whether kernels overlap; on a driver that
runs kernels without a GPU."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch

import glasshouse as gh
from fake_cuda import FakeCuda, fake_cuda
from glasshouse.backend.base import backend_named
from glasshouse.backend.cuda import build, ways
from glasshouse.backend.cuda import measure as measuring
from glasshouse.backend.cuda.device import Gpu
from glasshouse.backend.cuda.render import render
from glasshouse.errors import ExecutionError
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import float16
from glasshouse.lower.choice import Candidate, Choice, Problem
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.program import Call
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
    monkeypatch.setattr(
        measuring, "build_ahead", lambda kernels, arch: texts.extend(k.text for k in kernels)
    )
    small, other, tiny = (
        Problem("matmul", "float16", (20, n, 256, 1), worth)
        for n, worth in ((24, 1e9), (40, 1e9), (8, 1.0))
    )
    names = ("mma32x32x128", "mma64x32x64")
    tuner = tune.Tuner(backend)
    tuner.expect([(small, names), (other, names), (other, names), (tiny, names)])
    assert len(texts) == len(set(texts)) == 4, "those that are measured, each variant once"
    rows = [[name, 1.0, 0.0] for name in names]
    tuner.file(small).write_text(json.dumps({"measured": rows}))
    texts.clear()
    tuner.expect([(small, names), (other, names)])
    assert len(texts) == 2, "what is known on disk is not built"
    texts.clear()
    tuner.expect([(small, names)])
    assert texts == []


def test_kernels_as_they_stand_are_begun_too(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that keep their variant, and those that have none, are not built again at the end."""
    begun: list[str] = []
    monkeypatch.setattr(
        measuring, "build_ahead", lambda kernels, arch: begun.extend(k.text for k in kernels)
    )
    monkeypatch.setattr(
        backend_named("cuda"), "measure", lambda problem, names, progress, asking: [
            Candidate(name, 1.0, 0.0) for name in names
        ],
    )  # fmt: skip
    monkeypatch.setattr(tune, "WORTH", 0.0)
    monkeypatch.setattr(tune, "_read", lambda file, names: None)  # an earlier run knows the answer
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Softmax(-1)).half()
    module = gh.compile(model, torch.randn(24, 32).half(), target="cuda", progress=False)
    final = [k.text for k in map(render, module.program.kernels)]
    assert set(final) <= set(begun)
    assert len(begun) > len(final)


def test_kernels_are_begun_in_the_variant_that_was_taken(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[Kernel]] = []
    backend = backend_named("cuda")
    monkeypatch.setattr(
        backend, "prepare", lambda asked, kernels, asking=None: begun.append([*kernels])
    )
    monkeypatch.setattr(
        backend, "measure", lambda problem, names, progress, asking: [
            Candidate(name, 1.0 / (1 + place)) for place, name in enumerate(names)
        ],
    )  # fmt: skip
    monkeypatch.setattr(tune, "WORTH", 0.0)
    monkeypatch.setattr(tune, "_read", lambda file, names: None)  # an earlier run knows the answer
    model = torch.nn.Sequential(torch.nn.Linear(96, 40), torch.nn.Softmax(-1)).half()
    module = gh.compile(model, torch.randn(24, 96).half(), target="cuda", progress=False)
    (call, *_) = (s for s in module.program.steps if isinstance(s, Call) and s.choices)
    assert call.choices[0].name == call.choices[0].candidates[-1].name, "the fastest"
    first, *later = begun
    assert first == [k for k in module.program.kernels if k != call.kernel]
    assert later == [[call.kernel]]


def test_measurements_are_kept_by_the_kernel_that_was_measured(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another model with the same product, of which it makes something else, measures its own."""
    monkeypatch.setattr(tune, "made_cache_folder", lambda: tmp_path)
    backend = backend_named("cuda")
    measured: list[str] = []

    def measure(problem: Problem, names: list[str], *_: object) -> list[Candidate]:
        measured.append(problem.key)
        return [Candidate(name, 1.0, 0.0) for name in names]

    monkeypatch.setattr(backend, "prepare", lambda *_: None)
    monkeypatch.setattr(backend, "measure", measure)
    monkeypatch.setattr(tune, "WORTH", 0.0)
    x = torch.randn(24, 96).half()

    def compiled(after: torch.nn.Module) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(96, 40), after).half()
        gh.compile(model, x, target="cuda", progress=False)

    compiled(torch.nn.Softplus())
    assert len(measured) == 1
    compiled(torch.nn.Softplus())
    assert len(measured) == 1, "known from disk"
    compiled(torch.nn.Mish())
    assert len(measured) == 2
    assert measured[0] == measured[1], "the problem is the same"


def test_of_many_problems_the_nearest_variants_are_measured(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tune, "made_cache_folder", lambda: tmp_path)
    backend = backend_named("cuda")
    begun: list[tuple[Problem, list[str]]] = []
    monkeypatch.setattr(backend, "prepare", lambda asked, kernels, asking=None: begun.extend(asked))
    measured: list[list[str]] = []

    def measure(
        problem: Problem, names: list[str], progress: object, asking: object
    ) -> list[Candidate]:
        measured.append(names)
        return [Candidate(name, 1.0 / (1 + place)) for place, name in enumerate(names)]

    monkeypatch.setattr(backend, "measure", measure)
    names = ("tma128x256x64", "turns128x128x64", "tma128x128x64", "mma64x32x64", "cublaslt")
    few, many = (
        [(Problem("matmul", "float16", (2048, 8 * n, 256, 1), 1e9), names) for n in range(1, last)]
        for last in (13, 26)
    )

    def asked(problems: list[tuple[Problem, tuple[str, ...]]], every: bool = False) -> Choice:
        begun.clear()
        measured.clear()
        tuner = tune.Tuner(backend, every)
        tuner.expect(problems)
        return tuner(*problems[0], names[0])

    choice = asked(many)
    nearest = [*names[:3], "cublaslt"]
    assert {tuple(tried) for _, tried in begun} == {tuple(nearest)}
    assert len(begun) == 25
    assert measured == [nearest]
    assert choice.name == "cublaslt"
    assert [c.name for c in choice.candidates] == [*nearest, "mma64x32x64"]
    assert "not measured among 25" in choice.candidates[-1].why
    asked(many)
    assert not measured, "what is known of these on disk is enough"
    assert len(begun) == 24

    for every in (False, True):
        tune.Tuner(backend).file(many[0][0]).unlink()
        asked(many if every else few, every)
        assert measured == [[*names]]
    choice = asked(many)
    assert not measured
    assert all(c.seconds for c in choice.candidates), "more is known, and used"


def test_a_kernel_is_built_once_however_many_ask(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    may_end = Event()

    def slow(text: str, name: str, arch: str, include: Path) -> bytes:
        asked.append(text)
        assert may_end.wait(60)
        if text == "wrong":
            raise ExecutionError("no")
        return text.encode()

    monkeypatch.setattr(build, "compile_cubin", slow)
    monkeypatch.setattr(build, "made_cache_folder", lambda: tmp_path)
    monkeypatch.setattr(build, "identity", lambda: "fake")
    texts = ["right", "wrong"] * 3
    with ThreadPoolExecutor(6) as pool:
        found = [pool.submit(build.cubin_of, t, "k", "sm_90") for t in texts]
        while len(asked) < 2:
            may_end.wait(0.001)
        may_end.set()
    assert sorted(asked)[:1] == ["right"]
    assert asked.count("right") == 1
    assert all(f.result() == b"right" for f in found[::2])
    assert all(isinstance(f.exception(), ExecutionError) for f in found[1::2])
    assert not build._under_way.built


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


def test_what_the_compiler_cannot_build_is_an_error(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device without room for a measurement is none: the usual variant is taken."""

    def cannot(*given: str) -> bytes:
        raise ExecutionError("NVRTC cannot compile it")

    names = ("mma32x32x128", "mma64x32x64")
    problem = Problem("matmul", "float16", (20, 24, 256, 1), 1e9)
    with monkeypatch.context() as broken:
        broken.setattr(measuring, "cubin_of", cannot)
        with pytest.raises(ExecutionError, match="NVRTC cannot"):
            backend_named("cuda").measure(problem, names)
    cuda.room(1 << 10)
    assert backend_named("cuda").measure(problem, names) is None


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
    with_overlap: float, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GLASSHOUSE_OVERLAP")
    monkeypatch.setattr(ways, "made_cache_folder", lambda: tmp_path)
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


class _Layers(torch.nn.Module):
    """Products and convolutions with what `behind` has words for."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(64, 64, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        grown = torch.nn.functional.gelu(self.up(x), approximate="tanh")
        first, second, third = self.convs
        image = torch.relu(first(image))
        image = torch.relu(third(torch.relu(second(image))) + image)
        return x + self.down(grown), image.mean((2, 3))


def test_what_is_measured_is_the_kernel_of_the_model() -> None:
    """So the variant that is chosen has been built."""
    given = torch.randn(32, 64).half(), torch.randn(2, 64, 8, 8).half()
    module = gh.compile(_Layers().half(), *given, target="cuda", arch="sm_90", progress=False)
    target = backend_named("cuda:sm_90").target
    same: set[str] = set()
    for kernel in module.program.kernels:
        for tile in kernel.tiles:
            assert tile.problem is not None
            (call,) = measuring._calls(target, tile.problem, [tile.variant]) or [None]
            if call is not None and render(call.kernel).text == render(kernel).text:
                same.add(tile.problem.op)
    products = {"matmul_bias_gelu_tanh", "matmul_bias_onto"}
    assert same == {*products, "conv product_bias_relu", "conv product_bias_residual_relu"}


class _Attention(torch.nn.Module):
    """Weights that lie across the depth, heads inside of one projection, a mask by key."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(64, 192) / 8)
        self.bias = torch.nn.Parameter(torch.randn(192))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = (x @ self.weight + self.bias).chunk(3, -1)
        q, k, v = (t.view(2, 32, 1, 64).transpose(1, 2) for t in (q, k, v))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
        return out.transpose(1, 2).reshape(2, 32, 64)


def _asked(module: gh.Module) -> list[tuple[Problem, Call]]:
    calls = [s for s in module.program.steps if isinstance(s, Call)]
    return [(t.problem, c) for c in calls for t in c.kernel.tiles if t.problem is not None]


def test_what_the_problem_does_not_say_is_measured_with_the_call_that_asks() -> None:
    """A weight's form, where heads lie, a mask: the variant that is chosen has been built."""
    given = torch.randn(2, 32, 64).half(), torch.randn(2, 1, 1, 32).half()
    module = gh.compile(_Attention().half(), *given, target="cuda", arch="sm_90", progress=False)
    target = backend_named("cuda:sm_90").target
    asked = _asked(module)
    assert [problem.op for problem, _ in asked] == ["matmul_bias", "attention"]
    for problem, call in asked:
        name = call.kernel.variant
        (alone,) = measuring._calls(target, problem, [name]) or [None]
        (same,) = measuring._calls(target, problem, [name], call) or [None]
        assert alone is not None
        assert same is not None
        wanted = render(call.kernel).text
        assert render(alone.kernel).text != wanted
        assert render(same.kernel).text == wanted
        assert not {*measuring._any_data(call)} & {*call.operands}, "data of its own"


def test_the_call_that_asks_is_run_on_any_data(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_COPIES", (2, 2))
    monkeypatch.setattr(measuring, "_TURNS", 1)
    given = torch.randn(2, 32, 64).half(), torch.randn(2, 1, 1, 32).half()
    module = gh.compile(_Attention().half(), *given, target="cuda", progress=False)
    ours = set(module.source.kernels.values())
    built: set[str] = set()
    inner = measuring.cubin_of

    def noted(text: str, name: str, arch: str) -> bytes:
        built.add(text)
        return inner(text, name, arch)

    monkeypatch.setattr(measuring, "cubin_of", noted)
    gc.collect()
    before = cuda.taken
    for problem, call in _asked(module):
        other = {"attention": "flash32"}.get(problem.op, "mma32x32x128")
        names = [call.kernel.variant, other]
        found = backend_named("cuda").measure(problem, names, None, call)
        assert found is not None
        assert [(c.name, c.error) for c in found] == [(name, 0.0) for name in names]
        assert all(c.seconds > 0 for c in found)
    assert ours <= built
    assert cuda.taken == before, "all memory is given back"


@pytest.mark.parametrize("behind", ["log", "places"])
def test_a_call_that_is_not_for_any_data_is_measured_by_its_op(
    behind: str, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logarithms of random numbers are none; random places lie anywhere."""
    monkeypatch.setattr(measuring, "_COPIES", (2, 2))
    monkeypatch.setattr(measuring, "_TURNS", 1)
    linear = torch.nn.Linear(64, 64, bias=False).half()
    table = torch.randn(50, 64).half()

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return torch.log(linear(x)) if behind == "log" else linear(x) * table[at]

    x, at = torch.randn(32, 64).half(), torch.randint(0, 50, (32,))
    module = gh.compile(Model(), x, at, target="cuda", progress=False)
    ((problem, call),) = _asked(module)
    assert measuring._takes_any_data(call, problem) == (behind == "log")
    timed: list[str] = []
    inner = measuring._in_variant
    monkeypatch.setattr(
        measuring,
        "_in_variant",
        lambda c, *given: (timed.append(c.kernel.name), inner(c, *given))[1],
    )
    found = backend_named("cuda").measure(problem, ["mma32x32x128", "mma64x32x64"], None, call)
    assert found is not None
    assert all(c.error == 0.0 and c.seconds > 0 for c in found)
    assert timed[-1] != call.kernel.name, "a kernel of the op alone"


def test_weights_go_through_the_cache_as_often_as_they_must() -> None:
    def copies(rows: int) -> int:
        builder = GraphBuilder()
        x = builder.input(float16, (rows, 1024))
        w = builder.wrap(builder.constant(np.ones((1024, 4096), np.float16), float16))
        graph = builder.finish(x.apply("matmul", w))
        (step,) = gh.compile(graph, target="cuda", arch="sm_90", progress=False).program.steps
        assert isinstance(step, Call)
        return measuring._copies(step)

    assert copies(256) == 12, "12 of 8 MB, with the 2.5 MB beside them, are more than 96"
    assert copies(16384) == 2, "what is read and written beside them fills the cache"
