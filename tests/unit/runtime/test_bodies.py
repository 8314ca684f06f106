"""Control flow in compiled models: Python goes round, modules compute the bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop as while_loop_of_torch

import glasshouse as gh
from glasshouse.errors import OnReference
from glasshouse.ir import Graph, GraphBuilder, symbol
from glasshouse.ir.dtype import bfloat16, finish
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run
from glasshouse.ops.control import body_of, cond, while_loop
from glasshouse.ops.scan import scan
from glasshouse.record.schema import KernelRow
from glasshouse.runtime.module import Module
from glasshouse.runtime.recording import compilation_of
from glasshouse.runtime.summary import summary_of

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
def test_sizes_from_outside_run_by_their_meaning_and_it_is_told(way: bool) -> None:
    builder = GraphBuilder()
    flag, x = builder.input("bool", ()), builder.input("float32", (N,))
    total = x.apply("sum")
    wide = body_of(lambda v: v.apply("expand", shape=(N,)), total)
    graph = builder.finish(cond(flag, total, then=wide, other=wide))
    why = "2 of 2 bodies run on the reference executor: only the graph around it knows the size n"
    with pytest.warns(OnReference, match=why) as told:
        module = gh.compile(graph)
    assert len(told) == 1
    assert inside(module) == [None] * 2
    given = [np.array(way), np.ones(5, "f")]
    np.testing.assert_array_equal(module(*given), run(graph, given)[0])
    kernels = list(compilation_of(module, None).finish().graphs[0].table(KernelRow))
    assert [why in row.code for row in kernels if row.variant == "fallback"] == [True]
    assert why in summary_of(module)


def test_half_floats_are_computed_in_kernels() -> None:
    builder = GraphBuilder()
    x, w = builder.input("bfloat16", (4, 8)), builder.input("bfloat16", (8, 8))
    steps = builder.input("int64", ())
    test = body_of(lambda v, w, i: i < 5, x, w, steps)
    body = body_of(lambda v, w, i: ((v @ w).apply("tanh"), w, i + 1), x, w, steps)
    looped = while_loop(x, w, steps, test=test, body=body)
    twice = body_of(lambda v: v + v, x)
    graph = builder.finish(*looped, cond(steps < 1, x, then=twice, other=twice))
    module = gh.compile(graph)
    assert all(m is not None and m.program.kernels for m in inside(module))
    rng = np.random.default_rng(0)
    given = [
        *(finish(rng.uniform(-0.3, 0.3, shape), bfloat16) for shape in ((4, 8), (8, 8))),
        np.int64(0),
    ]
    for got, want in zip(module(*given), run(graph, given), strict=True):
        np.testing.assert_allclose(np.asarray(got, "f"), np.asarray(want, "f"), rtol=0, atol=0.02)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_torch_control_flow_in_half_floats() -> None:
    class Halves(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            doubled = torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))
            return while_loop_of_torch(
                lambda i, v: i < 3, lambda i, v: (i + 1, v.tanh()), (torch.tensor(0), doubled)
            )[1]

    x = torch.linspace(-1, 2, 12, dtype=torch.bfloat16).reshape(3, 4)
    module = gh.compile(Halves(), x)
    assert all(m is not None for m in inside(module))
    for given in (x, -x):
        torch.testing.assert_close(module(given), Halves()(given), rtol=0, atol=0.02)
