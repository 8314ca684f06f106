"""Products of NVIDIA's library as candidates: against fakes of the driver and of the library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from fake_cuda import FakeCuda, fake_cublaslt, fake_cuda
from glasshouse.backend.base import backend_named
from glasshouse.backend.cuda import device as cuda_device
from glasshouse.backend.cuda import measure as measuring
from glasshouse.backend.cuda.cublaslt import CUBLASLT
from glasshouse.backend.cuda.launch_times import LaunchTimes
from glasshouse.backend.cuda.started import OFTEN, REMEMBERED
from glasshouse.errors import LibraryRefused, Unsupported
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import float16
from glasshouse.lower.choice import Candidate, Problem
from glasshouse.numpy_ref import run
from glasshouse.passes import PassContext, tune
from glasshouse.passes.tune import pick
from glasshouse.runtime.compiler import compile_optimized


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        yield fake


@pytest.fixture
def library(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with fake_cublaslt(monkeypatch, cuda) as fake:
        yield fake


class Residual(nn.Module):
    """A product with a bias and a residual, and one with a bias and a function."""

    def __init__(self, activation: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(24, 40, dtype=dtype), nn.Linear(40, 24, dtype=dtype)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.activation(self.up(x)))


def preferred(model: nn.Module, x: torch.Tensor) -> Any:
    with PassContext(options={"resolve_variant": {"prefer": (CUBLASLT,)}}):
        return gh.compile(model, x, target="cuda", progress=False)


def variants(module: Any) -> list[str]:
    return [s.kernel.variant for s in module.program.steps]


@pytest.mark.parametrize(
    ("dtype", "activation"),
    [
        (torch.float16, nn.ReLU()),
        (torch.bfloat16, nn.GELU(approximate="tanh")),
        (torch.float32, nn.ReLU()),
        (torch.float64, nn.ReLU()),
    ],
)
def test_what_follows_a_product_is_the_library_s_too(
    library: Any, cuda: FakeCuda, dtype: torch.dtype, activation: nn.Module
) -> None:
    torch.manual_seed(0)
    model, x = Residual(activation, dtype), torch.randn(9, 24).to(dtype)
    module = preferred(model, x)
    assert variants(module) == [CUBLASLT, CUBLASLT]
    cuda.forget()
    within = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float64: 1e-13}.get(dtype, 1e-5)
    torch.testing.assert_close(module(x), model(x).detach(), rtol=within, atol=within)
    assert cuda.calls.count("cuGraphAddChildGraphNode") == 2
    assert "cuGraphAddKernelNode_v2" not in cuda.calls, "the clock is asked in profiles alone"
    for _ in range(3):  # in other memory: the calls are captured anew
        other = torch.randn(9, 24).to(dtype)
        torch.testing.assert_close(module(other), model(other).detach(), rtol=within, atol=within)


def test_calls_on_memory_that_moves_are_started_not_captured(library: Any, cuda: FakeCuda) -> None:
    """Some graphs serve memory that changes by turns; what lies elsewhere every time is no graph's,
    until it comes again."""
    torch.manual_seed(0)
    model, x = Residual(nn.ReLU(), torch.float32), torch.randn(9, 24)
    module = preferred(model, x)
    given = [torch.randn(9, 24) for _ in range(REMEMBERED + 4)]
    made = [module(y) for y in given[:REMEMBERED]]  # held: every result has memory of its own
    cuda.forget()
    made += [module(y) for y in given[REMEMBERED:]]
    for y, ours in zip(given, made, strict=True):
        torch.testing.assert_close(ours, model(y).detach(), rtol=1e-5, atol=1e-5)
    assert "cuStreamBeginCapture_v2" not in cuda.calls
    assert "cuGraphLaunch" not in cuda.calls


@pytest.mark.parametrize("period", [1, 3, REMEMBERED])
def test_memory_that_comes_again_has_graphs(library: Any, cuda: FakeCuda, period: int) -> None:
    """A training step begins with memory of its own, and then has the same in every few steps."""
    torch.manual_seed(0)
    model, x = Residual(nn.ReLU(), torch.float32), torch.randn(9, 24)
    module = preferred(model, x)
    held = [module(torch.randn(9, 24)) for _ in range(REMEMBERED)]  # graphs that serve nobody
    outs = [torch.empty(9, 24) for _ in range(period)]
    cuda.forget()
    for out in outs * OFTEN:
        module.run_with_tensors([x], [out])
    assert cuda.calls.count("cuGraphLaunch") == period, "until then they were started"
    assert cuda.calls.count("cuStreamBeginCapture_v2") == 2 * period, "two calls in each graph"
    cuda.forget()
    for out in outs * 3:
        out.zero_()
        module.run_with_tensors([x], [out])
        torch.testing.assert_close(out, model(x).detach(), rtol=1e-5, atol=1e-5)
    assert cuda.calls.count("cuGraphLaunch") == 3 * period
    assert "cuStreamBeginCapture_v2" not in cuda.calls
    assert "cuLaunchKernel" not in cuda.calls
    del held


def test_a_call_is_shown_with_all_its_ops(library: Any, cuda: FakeCuda) -> None:
    module = preferred(Residual(nn.ReLU(), torch.float16), torch.randn(9, 24).half())
    texts = list(module.source.kernels.values())
    lines = list(module.source.lines.values())
    assert "y0[9, 40] = relu(x0[9, 24] x1[40, 24]^T + x2)" in texts[0]
    shown = [
        ops
        for text, ops in zip(texts[0].splitlines(), lines[0], strict=True)
        if "cublasLtMatmul" in text
    ]
    assert shown == [(0, 1, 2)]


@pytest.mark.parametrize("behind", ["gelu", "twice", "square", "added"])
def test_what_the_library_cannot_do_is_no_candidate(
    library: Any, cuda: FakeCuda, behind: str
) -> None:
    """The exact GELU; two results; a product of two; a sum behind the function."""
    linear = nn.Linear(24, 40).half()

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            y = linear(x)
            if behind == "gelu":
                return nn.functional.gelu(y)
            if behind == "added":
                return torch.relu(nn.functional.linear(x, linear.weight)) + linear.bias
            if behind == "twice":
                return y, torch.relu(y)
            return y * y

    module = preferred(Model(), torch.randn(9, 24).half())
    assert CUBLASLT not in variants(module)


def test_without_the_library_there_is_no_candidate(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = Residual(nn.ReLU(), torch.float16), torch.randn(9, 24).half()
    assert CUBLASLT not in variants(preferred(model, x))
    with fake_cublaslt(monkeypatch, cuda):
        assert CUBLASLT in variants(preferred(model, x))
        monkeypatch.setenv("GLASSHOUSE_CUBLASLT", "0")
        backend_named.cache_clear()
        assert CUBLASLT not in variants(preferred(model, x))


def test_it_is_measured_beside_the_others(
    library: Any, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_COPIES", (2, 2))
    monkeypatch.setattr(measuring, "_TURNS", 1)
    names = ("mma32x32x128", CUBLASLT)
    for op in ("matmul_bias_onto", "matmul_gelu_tanh"):
        problem = Problem(op, "float16", (20, 24, 256, 1), 1e9)
        found = backend_named("cuda").measure(problem, names)
        assert found is not None
        assert [c.name for c in found] == list(names)
        assert all(c.error < 1e-3 and c.seconds > 0 for c in found), op
    library.fake_refuses(1)
    found = backend_named("cuda").measure(problem, names)
    assert found is not None
    assert [(c.seconds > 0, c.error < 1e-3) for c in found] == [(True, True), (False, False)]
    assert "no algorithm" in found[1].why


def test_why_a_library_was_not_measured_is_kept(tmp_path: Path) -> None:
    rows = [Candidate("mma32x32x128", 1e-6), Candidate(CUBLASLT, 0.0, 1.0, "it refused")]
    file = tmp_path / "tuned.json"
    tune._write(file, Problem("matmul", "float16", (20, 24, 256, 1), 1e9), rows)
    known = tune._read(file, [c.name for c in rows])
    assert known == rows
    told = pick(known, "mma32x32x128", 1e-5, frozenset({CUBLASLT})).candidates
    assert [c.why for c in told] == ["error 0.0e+00", "it refused"]


def test_it_is_taken_only_where_it_is_faster_than_all_others() -> None:
    def taken(*seconds: float) -> str:
        named = zip(("usual", "other", CUBLASLT), seconds, strict=True)
        measured = [Candidate(name, s) for name, s in named]
        return pick(measured, "usual", 1e-5, frozenset({CUBLASLT})).name

    assert taken(2.0, 1.08, 1.0) == "other"
    assert taken(2.0, 1.12, 1.0) == CUBLASLT
    assert taken(1.02, 1.01, 1.0) == "usual"


def test_a_saved_module_has_no_calls_of_libraries(
    library: Any, cuda: FakeCuda, tmp_path: Path
) -> None:
    model, x = Residual(nn.ReLU(), torch.float16), torch.randn(9, 24).half()
    module = preferred(model, x)
    module.save(tmp_path / "saved")
    texts = [p.read_text() for p in (tmp_path / "saved").rglob("*.cu")]
    assert texts
    assert not any("cublasLt" in text for text in texts)
    library.fake_refuses(1)
    again = gh.load(tmp_path / "saved")
    torch.testing.assert_close(again(x), model(x).detach(), rtol=2e-3, atol=2e-3)
    assert variants(module) == [CUBLASLT, CUBLASLT], "the module itself is as it was"


def test_a_profile_times_the_call_from_outside(library: Any, cuda: FakeCuda) -> None:
    module = preferred(Residual(nn.ReLU(), torch.float16), torch.randn(9, 24).half())
    cuda.forget()
    module.profile(torch.randn(9, 24).half(), count=1)
    assert cuda.calls.count("cuGraphAddKernelNode_v2") == 4, "before and behind each of both"


def test_the_time_of_a_silent_launch_lies_between_its_neighbours() -> None:
    class Noted:
        def clear(self, address: int, count: int) -> None:
            pass

        def download(self, array: Any, source: int) -> None:
            ends = np.array([[100, 110], [0, 0], [150, 160], [200, 300]], np.uint64)
            array[:, 0], array[:, 1] = ~ends[:, 0], ends[:, 1]
            array[1, 0] = 0

    times = LaunchTimes(Noted(), None, [0, 0, 0, 1], [False, True, False, False])  # type: ignore[arg-type]  # as far as used
    found = times.read()
    assert round(found[0].kernels * 1e9) == 60, "10 before, 40 of the call, 10 behind"
    assert round(found[0].gaps * 1e9) == 0
    assert round(found[1].gaps * 1e9) == 40


@pytest.mark.parametrize(("left", "right"), [(True, True), (False, True), (True, False)])
def test_operands_that_lie_across_the_depth_are_read_as_they_lie(
    library: Any, cuda: FakeCuda, left: bool, right: bool
) -> None:
    """Products of gradients: of a weight, of what a layer was given."""
    builder = GraphBuilder()
    x = builder.input(float16, (40, 24) if left else (24, 40))
    y = builder.input(float16, (40, 16) if right else (16, 40))
    graph = builder.finish(x.apply("matmul", y, transpose_x=left, transpose_y=not right))
    with PassContext(options={"resolve_variant": {"prefer": (CUBLASLT,)}}):
        module = compile_optimized(graph, "cuda")
    assert variants(module) == [CUBLASLT]
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(v.type.shape).astype(np.float16) for v in graph.inputs]
    (ours,) = module.run_flat(arrays)
    (theirs,) = run(graph, arrays)
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-2)
    problem = module.program.steps[0].kernel.tiles[0].problem
    assert problem is not None
    assert problem.op in backend_named("cuda").target.measured
    found = measuring.measure(
        cuda_device.gpu(), backend_named("cuda").target, problem, ("mma64x64x64", CUBLASLT)
    )
    assert found is not None
    assert [c.name for c in found if c.seconds and not c.error] == ["mma64x64x64", CUBLASLT]


class Widened(nn.Module):
    """A product in float32 of half floats: its kernel casts them first."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(24, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.float())


def test_an_operand_that_the_kernel_makes_itself_is_not_the_library_s(library: Any) -> None:
    model, x = Widened(), torch.randn(9, 24).half()
    module = preferred(model, x)
    assert CUBLASLT not in variants(module)
    torch.testing.assert_close(module(x), model(x).detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("way", ["tensors", "arrays", "bound", "into"])
def test_what_the_library_refuses_to_run_is_computed_by_a_kernel_of_our_own(
    library: Any, cuda: FakeCuda, way: str
) -> None:
    """Program, code and recording are those of what runs; the other call is the library's still."""
    torch.manual_seed(0)
    model, x = Residual(nn.ReLU(), torch.float32), torch.randn(9, 24)
    module = preferred(model, x)
    library.fake_refuses_columns(40)
    wanted, out = model(x).detach(), torch.empty(9, 24)
    if way == "bound":
        module.bound([x], [out])()
    elif way == "into":
        module.run_with_tensors([x], [out])
    elif way == "arrays":
        out = torch.from_numpy(np.asarray(module.run_flat([x.numpy()])[0]))
    else:
        out = module(x)
    torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-5)
    first, second = variants(module)
    assert second == CUBLASLT
    assert first != CUBLASLT
    (choice,) = module.program.steps[0].choices
    assert choice.name == first
    (told,) = (c for c in choice.candidates if c.name == CUBLASLT)
    assert "refused as it was to run" in told.why
    texts = list(module.source.kernels.values())
    assert ["cublasLt" in text for text in texts] == [False, True]
    (fact,) = module.settled().values()
    assert "status 7" in fact
    assert f"{first} runs instead" in fact
    module(x)
    cuda.forget()
    for _ in range(2):
        y = torch.randn(9, 24)
        torch.testing.assert_close(module(y), model(y).detach(), rtol=1e-5, atol=1e-5)
    assert "cuGraphLaunch" in cuda.calls
    assert "refused in k0_matmul_add_relu" in module.recording(x, count=1).header.facts


def test_a_library_without_an_algorithm_as_it_is_loaded_is_stood_for(
    library: Any, cuda: FakeCuda
) -> None:
    model, x = Residual(nn.ReLU(), torch.float16), torch.randn(9, 24).half()
    module = preferred(model, x)
    library.fake_refuses(1)
    torch.testing.assert_close(module(x), model(x).detach(), rtol=2e-3, atol=2e-3)
    assert CUBLASLT not in variants(module)
    assert len(module.settled()) == 2


def test_a_refusal_that_nothing_stands_for_is_an_error(
    library: Any, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: Any) -> Any:
        raise Unsupported("there is no kernel of our own")

    monkeypatch.setattr("glasshouse.lower.opaque.without_opaque", nothing)
    x = torch.randn(9, 24).half()
    module = preferred(Residual(nn.ReLU(), torch.float16), x)
    library.fake_refuses_columns(40)
    for _ in range(2):
        with pytest.raises(LibraryRefused, match="status 7"):
            module(x)
    assert variants(module) == [CUBLASLT, CUBLASLT]
    library.fake_refuses_columns(0)
    module(x)
