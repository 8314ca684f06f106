"""One module for all sizes in a range: convolutions build, calls within bounds are quick."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.errors import ExecutionError
from glasshouse.ir import Graph, GraphBuilder, symbol
from glasshouse.numpy_ref import run
from glasshouse.runtime.compiler import compile_graph
from glasshouse.runtime.general_run import GeneralRun
from glasshouse.runtime.module import Module


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


@pytest.mark.parametrize(
    ("weights", "attrs"),
    [
        ((32, 32, 3, 3), {"padding": [1, 1, 1, 1]}),  # Winograd
        ((16, 8, 3, 3), {"stride": [2, 2], "padding": [1, 1, 1, 1]}),
        ((8, 1, 3, 3), {"groups": 8}),  # depthwise
        ((12, 4, 1, 1), {"groups": 2}),
    ],
)
def test_convolutions_of_any_batch(weights: tuple[int, ...], attrs: dict[str, Any]) -> None:
    builder = GraphBuilder()
    channels = weights[1] * attrs.get("groups", 1)
    x = builder.input("float32", [symbol("batch", 1, 4), channels, 9, 10])
    graph = builder.finish(x.apply("conv", builder.weight(floats(*weights)), **attrs))
    module = gh.compile(graph)
    for batch in (1, 3):
        given = floats(batch, channels, 9, 10)
        np.testing.assert_allclose(module(given), run(graph, [given])[0], rtol=1e-4, atol=1e-4)


def test_weights_that_a_run_computes_are_packed_for_any_batch() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [symbol("batch", 1, 4), 8, 6, 6])
    w = builder.input("float32", [8, 8, 3, 3])
    graph = builder.finish(x.apply("conv", w * 2.0), x.apply("conv_transpose", w * 2.0))
    given = [floats(3, 8, 6, 6), floats(8, 8, 3, 3)]
    for ours, expected in zip(compile_graph(graph)(*given), run(graph, given), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def several() -> tuple[Graph, Module]:
    """A size that is an axis, one that comes with a second input, and sizes computed from both."""
    builder = GraphBuilder()
    n, k = symbol("n", 1, 9), symbol("k", 2, 5)
    x = builder.input("float32", [n, 4], name="x")
    y = builder.input("float32", [k, 4], name="y")
    both = x.apply("concat", y, axis=0)
    scores = x.apply("matmul", y, transpose_y=True)
    graph = builder.finish(both * 2.0, scores.apply("reshape", shape=(n * k,)))
    return graph, compile_graph(graph)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_calls_within_bounds_take_the_quick_way(
    several: tuple[Graph, Module], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    graph, module = several
    monkeypatch.setattr(GeneralRun, "prepare", lambda *_: pytest.fail("the general way was taken"))
    wrap = np.asarray
    if kind == "torch":
        wrap = pytest.importorskip("torch").from_numpy
    for n, k in ((1, 2), (9, 5), (4, 3)):
        given = [floats(n, 4), floats(k, 4)]
        expected = run(graph, given)
        buffers = [np.zeros_like(e) for e in expected]
        made = module(*map(wrap, given))
        module.run_with_tensors([*map(wrap, given)], [*map(wrap, buffers)])
        for one, other, e in zip(made, buffers, expected, strict=True):
            np.testing.assert_allclose(one, e, rtol=1e-5)
            np.testing.assert_allclose(other, e, rtol=1e-5)


def test_sizes_that_do_not_fit_are_told(several: tuple[Graph, Module]) -> None:
    _, module = several
    with pytest.raises(ExecutionError, match="k is 6, compiled for 2 to 5"):
        module(floats(3, 4), floats(6, 4))
    with pytest.raises(ExecutionError, match=r"x must be float32\[n, 4\]"):
        module(floats(3, 5), floats(3, 4))
    with pytest.raises(ExecutionError, match="output buffer"):
        module.run_with_tensors([floats(3, 4), floats(2, 4)], [floats(6, 4), floats(6)])


def test_threads_share_what_a_batch_of_one_holds() -> None:
    """Loops over a batch that may be 1 are shared together with those inside, in any parts."""
    builder = GraphBuilder()
    x = builder.input("float32", [symbol("batch", 1, 4), 7, 1500])
    turned = x.apply("permute", axes=(0, 2, 1))
    graph = builder.finish(turned * 1.0, x.apply("mean", axes=[1]))
    module = compile_graph(graph)
    assert any("high_" in text for text in module.source.kernels.values())
    for batch in (1, 3, 4):
        given = floats(batch, 7, 1500)
        for ours, expected in zip(module(given), run(graph, [given]), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


def test_symbols_with_like_names_stay_apart() -> None:
    """Names come from files: nothing keeps them from being no identifiers."""
    builder = GraphBuilder()
    rows, columns = symbol("a-b", 1, 9), symbol("a_b", 1, 9)
    x = builder.input("float32", (rows, columns))
    graph = builder.finish(x.apply("sum", axes=(1,)))
    given = floats(3, 5)
    np.testing.assert_allclose(gh.compile(graph)(given), given.sum(1), rtol=1e-5)
