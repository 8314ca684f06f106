"""Control flow in compiled models: Python goes round, modules compute the bodies."""

from __future__ import annotations

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.ir import Graph, GraphBuilder, symbol
from glasshouse.ir.dtype import bfloat16
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run
from glasshouse.ops.control import body_of, cond, while_loop
from glasshouse.ops.scan import scan
from glasshouse.runtime.module import Module

N = symbol("n", 1, 64)


def inside(module: Module) -> list[Module | None]:
    """What runs each body of the control flow in a module."""
    nodes = [s.node for s in module.program.steps if isinstance(s, Fallback)]
    graphs = [a for n in nodes for a in n.attrs.values() if isinstance(a, Graph)]
    return [module.bodies.module_of(g) for g in graphs]


def test_a_loop_computes_its_body_in_kernels() -> None:
    builder = GraphBuilder()
    x, w = builder.input("float32", (4, 8)), builder.input("float32", (8, 8))
    steps = builder.input("int64", ())
    test = body_of(lambda v, w, i: i < 5, x, w, steps)
    body = body_of(lambda v, w, i: ((v @ w).apply("tanh"), w, i + 1), x, w, steps)
    graph = builder.finish(*while_loop(x, w, steps, test=test, body=body))
    module = gh.compile(graph)
    assert [len(m.program.kernels) > 0 for m in inside(module) if m is not None] == [True, True]
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((4, 8), "f"), rng.standard_normal((8, 8), "f"), np.int64(0)]
    for got, want in zip(module(*given), run(graph, given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_scan_over_slices_of_any_size_backwards() -> None:
    builder = GraphBuilder()
    state, xs = builder.input("float32", (N, 3)), builder.input("float32", (6, N, 3))
    slice_like = builder.input("float32", (N, 3))
    body = body_of(lambda s, x: (s * 0.5 + x, (s - x).apply("exp")), state, slice_like)
    outs = scan(state, xs, body=body, carries=1, scanned=1, length=None, reverse=True)
    graph = builder.finish(*outs, slice_like)
    module = gh.compile(graph)
    assert inside(module)[0] is not None
    for n in (2, 7):
        rng = np.random.default_rng(n)
        given = [rng.standard_normal(s, "f") for s in ((n, 3), (6, n, 3), (n, 3))]
        for got, want in zip(module(*given), run(graph, given), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", [True, False])
def test_sizes_from_outside_and_half_floats_run_by_their_meaning(way: bool) -> None:
    builder = GraphBuilder()
    flag, x = builder.input("bool", ()), builder.input("float32", (N,))
    total = x.apply("sum")
    wide = body_of(lambda v: v.apply("expand", shape=(N,)), total)
    half = total.cast(bfloat16)
    twice = body_of(lambda v: v + v, half)
    graph = builder.finish(
        cond(flag, total, then=wide, other=wide), cond(flag, half, then=twice, other=twice)
    )
    module = gh.compile(graph)
    assert inside(module) == [None] * 4
    given = [np.array(way), np.ones(5, "f")]
    for got, want in zip(module(*given), run(graph, given), strict=True):
        np.testing.assert_array_equal(np.asarray(got, "f"), np.asarray(want, "f"))
