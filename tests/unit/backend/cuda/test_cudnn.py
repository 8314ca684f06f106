"""Convolutions of NVIDIA's library: against fakes of the driver and of the library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from fake_cuda import FakeCuda, fake_cuda, fake_cudnn
from glasshouse.backend.base import backend_named
from glasshouse.backend.cuda import measure as measuring
from glasshouse.backend.cuda.cudnn import CUDNN, CUDNN_TF32
from glasshouse.errors import Unsupported
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import as_dtype, from_storage, to_storage
from glasshouse.ir.graph import Graph
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run
from glasshouse.passes import PassContext
from glasshouse.record.reader import Recording
from glasshouse.runtime.compiler import compile_optimized


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        yield fake


@pytest.fixture
def library(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with fake_cudnn(monkeypatch, cuda) as fake:
        yield fake


# image [batch, channels, spatial...], filters, kernel, then what differs from the usual attributes
CASES: dict[str, tuple[tuple[int, ...], int, tuple[int, ...], dict[str, Any]]] = {
    "a line": ((2, 8, 11), 16, (3,), {"stride": (2,), "padding": (1,)}),
    "an image": ((2, 8, 7, 6), 16, (3, 3), {"padding": (1, 1)}),
    "one pixel": ((2, 8, 5, 5), 16, (1, 1), {}),
    "groups, gaps": ((1, 8, 9, 9), 4, (3, 2), {"dilation": (2, 3), "groups": 2}),
    "odd borders": ((1, 8, 8, 9), 8, (3, 3), {"padding": (0, 1, 1, 0), "stride": (2, 2)}),
    "windows that do not reach": ((1, 8, 8, 8), 8, (3, 3), {"stride": (2, 2), "padding": (1, 1)}),
    "a volume": ((1, 8, 4, 5, 6), 8, (3, 3, 3), {"padding": (1, 1, 1), "stride": (2, 1, 1)}),
}
WITHIN = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-12}


def graph_of(name: str, op: str, dtype: str, constant: bool, follows: bool) -> Graph:
    image, filters, kernel, attrs = CASES[name]
    rank = len(kernel)
    usual = {"stride": (1,) * rank, "padding": (0,) * rank, "dilation": (1,) * rank, "groups": 1}
    attrs = {**usual, **attrs}
    weights = (filters, image[1] // attrs["groups"], *kernel)
    builder, kind = GraphBuilder(), as_dtype(dtype)
    random = np.random.default_rng(0)

    def given(shape: tuple[int, ...], fixed: bool = False) -> Any:
        if fixed:
            return builder.wrap(builder.constant(random.standard_normal(shape), kind))
        return builder.input(kind, shape)

    probe = GraphBuilder()
    made = probe.input(kind, image).apply("conv", probe.input(kind, weights), **attrs)
    result = tuple(made.shape)
    if op == "conv":
        out = given(image).apply("conv", given(weights, constant), **attrs)
    elif op == "conv_transpose":
        begins, ends = (attrs["padding"] * 2)[:rank], (attrs["padding"] * 2)[rank : 2 * rank]
        more = tuple(
            s - ((r - 1) * t + (k - 1) * d + 1 - b - e)
            for s, r, k, t, d, b, e in zip(
                image[2:], result[2:], kernel, attrs["stride"], attrs["dilation"], begins, ends,
                strict=True,
            )
        )  # fmt: skip
        out = given(result).apply(
            "conv_transpose", given(weights, constant), **attrs, output_padding=more
        )
    else:
        out = given(image).apply("conv_weight_grad", given(result), kernel=kernel, **attrs)
    return builder.finish(out.apply("relu") * 2 if follows else out)


def compared(
    graph: Graph, dtype: str, within: float | None = None, precision: str | None = None
) -> Any:
    options = {"resolve_variant": {"prefer": (CUDNN, CUDNN_TF32)}}
    with PassContext(options=options, precision=precision):
        module = compile_optimized(graph, "cuda")
    random = np.random.default_rng(1)
    kind = as_dtype(dtype)
    arrays = [
        to_storage(random.standard_normal(v.type.shape).astype(np.float32), kind)
        for v in graph.inputs
    ]
    (ours,), (theirs,) = module.run_flat(arrays), run(graph, arrays)
    left, right = (
        np.asarray(from_storage(np.asarray(a), kind), np.float64) for a in (ours, theirs)
    )
    scale = float(np.abs(right).max())
    np.testing.assert_allclose(left, right, rtol=0, atol=(within or WITHIN[dtype]) * scale)
    return module


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("op", ["conv", "conv_transpose", "conv_weight_grad"])
@pytest.mark.parametrize("name", CASES)
def test_the_library_computes_a_convolution_and_its_gradients(
    library: Any, cuda: FakeCuda, name: str, op: str, follows: bool
) -> None:
    module = compared(graph_of(name, op, "float32", False, follows), "float32")
    assert not any(isinstance(s, Fallback) for s in module.program.steps)
    assert [s.kernel.variant for s in module.program.steps if s.kernel.tiles] == [CUDNN]
    assert cuda.calls.count("cuGraphAddChildGraphNode") == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("op", ["conv", "conv_transpose", "conv_weight_grad"])
def test_in_every_element_type(library: Any, cuda: FakeCuda, op: str, dtype: str) -> None:
    module = compared(graph_of("an image", op, dtype, True, True), dtype)
    assert CUDNN in [s.kernel.variant for s in module.program.steps]


def test_without_the_library_all_is_as_it_was(cuda: FakeCuda) -> None:
    graph = graph_of("an image", "conv_weight_grad", "float32", False, False)
    module = compile_optimized(graph, "cuda")
    assert [type(s) for s in module.program.steps] == [Fallback]


def test_what_the_library_refuses_is_as_it_was(library: Any, cuda: FakeCuda) -> None:
    library.fake_refuses(1)
    graph = graph_of("a volume", "conv", "float32", False, False)
    module = compile_optimized(graph, "cuda")
    assert [type(s) for s in module.program.steps] == [Fallback]
    assert backend_named("cuda").target.computes(graph.nodes[-1]) is False


def test_float32_rounds_to_tf32_where_that_is_asked_for(library: Any, cuda: FakeCuda) -> None:
    graph = graph_of("an image", "conv", "float32", True, True)
    module = compared(graph, "float32", 2e-3, "tf32_convolutions")
    assert [s.kernel.variant for s in module.program.steps] == [CUDNN_TF32]
    assert "rounded to TF32" in next(iter(module.source.kernels.values()))


def test_a_module_that_needs_the_library_is_not_saved(
    library: Any, cuda: FakeCuda, tmp_path: Path
) -> None:
    module = compared(graph_of("a volume", "conv", "float32", True, True), "float32")
    with pytest.raises(Unsupported, match="no kernel of our own"):
        module.save(tmp_path / "saved")


@pytest.mark.parametrize("precision", [None, "tf32"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", ["an image", "one pixel", "a line"])
def test_a_saved_module_convolves_in_float32_without_the_library(
    library: Any, cuda: FakeCuda, tmp_path: Path, name: str, constant: bool, precision: str | None
) -> None:
    graph = graph_of(name, "conv", "float32", constant, True)
    module = compared(graph, "float32", 2e-3, precision)
    module.save(tmp_path / "saved")
    again = gh.load(tmp_path / "saved")
    recording = Recording.open(tmp_path / "saved" / "recording.glass")
    assert recording.header.facts["saved"].startswith("1 calls of libraries")
    cuda.forget()
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs]
    (ours,), (theirs,) = again.run_flat(arrays), run(graph, arrays)
    scale = float(np.abs(theirs).max())
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=0, atol=1e-6 * scale)
    assert "cuGraphLaunch" in cuda.calls
    assert "cuGraphAddChildGraphNode" not in cuda.calls, "a library's call"


def test_it_is_measured_beside_ours(
    library: Any, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_COPIES", (2, 2))
    monkeypatch.setattr(measuring, "_TURNS", 1)
    for op in ("conv", "conv_transpose"):
        graph = graph_of("an image", op, "float16", True, False)
        program = compared(graph, "float16").program
        (problem,) = (t.problem for s in program.steps for t in s.kernel.tiles)
        assert problem is not None
        assert problem.op in backend_named("cuda").target.measured
        found = backend_named("cuda").measure(problem, ("mma64x32x64", CUDNN))
        assert found is not None
        assert all(c.error < 1e-3 and c.seconds > 0 for c in found), op
