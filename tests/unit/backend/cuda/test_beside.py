"""Small loop kernels that are started together: which ones, and that they compute what they did."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.base import target_named
from glasshouse.backend.cuda.chains import groups
from glasshouse.backend.cuda.render import render
from glasshouse.backend.cuda.target import cuda_target
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import float32
from glasshouse.lower.kernel.expr import Number, Var
from glasshouse.lower.kernel.index import Index
from glasshouse.lower.kernel.statement import Let, Statement, Store
from glasshouse.lower.program import Program
from glasshouse.numpy_ref import run
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program


def _program(graph: Graph, target: str = "sm_90") -> Program:
    ctx = PassContext()
    cpu = target == "cpu"
    ctx.target = target_named("cpu") if cpu else cuda_target(f"cuda:{target}", target)
    return optimize_program(graph, ctx)


def _three(size: int = 24) -> Graph:
    """Turned queries, a row of keys and one of values, all of another shape, then a product."""
    builder = GraphBuilder()
    q, k = builder.input(float32, (8, size)), builder.input(float32, (3, size))
    v = builder.input(float32, (5, size))
    a = (q * 2.0 + 1.0).apply("exp")
    b = (k - 1.0).apply("tanh") * 0.5
    c = v.apply("tanh") * 0.25
    both = a.apply("matmul", b, transpose_y=True).apply("sum")
    return builder.finish(both + a.apply("matmul", c, transpose_y=True).apply("max"))


def _values(graph: Graph) -> list[Any]:
    random = np.random.default_rng(0)
    return [random.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs]


def test_small_kernels_that_do_not_wait_for_each_other_are_started_together() -> None:
    graph = _three()
    program = _program(graph)
    first = render(program.steps[0].kernel)  # type: ignore[union-attr]  # a call
    assert len(program.steps[0].node.outputs) == 3
    assert len(first.launches) == 1
    assert first.launches[0].grid[0] == 3  # blocks of 256 threads, one for each nest
    (ours,) = run_emulated(program, _values(graph), fall_back=False)
    np.testing.assert_allclose(ours, run(graph, _values(graph))[0], rtol=1e-5)
    assert len(_program(graph, "cpu").steps) > len(program.steps)


def test_single_elements_share_what_they_read() -> None:
    """Counters of batches: one nest without loops, in which a store stands between a number and the
    next one that reads it."""
    builder = GraphBuilder()
    counts = [builder.input(float32, ()) for _ in range(3)]
    graph = builder.finish(*((x + 1.5).apply("absolute") for x in counts))
    program = _program(graph)
    assert len(program.steps) == 1
    given = [np.float32(i - 2.5) for i in range(3)]
    ours = run_emulated(program, given, fall_back=False)
    np.testing.assert_array_equal(np.ravel(ours), [1.0, 0.0, 1.0])


def test_a_variable_is_known_to_all_that_read_it() -> None:
    def bound(name: str) -> Let:
        return Let(name, float32, Number(1.5, float32))

    def stored(buffer: str, name: str) -> Store:
        return Store(buffer, Index(), Var(name, float32), float32)

    first: list[Statement] = [bound("a"), stored("y0", "a")]
    between: list[Statement] = [bound("b"), stored("y1", "b")]
    last: list[Statement] = [stored("y2", "a")]
    alone: list[Statement] = [bound("c"), stored("y3", "c")]
    together = [*first, *between, *last]
    assert groups([*together, *alone]) == [together, alone]
    assert groups([*first, *between, *alone]) == [first, between, alone]


def test_large_ones_and_those_that_read_each_other_stay_apart() -> None:
    large = _program(_three(1 << 20))
    assert len(large.steps[0].node.outputs) == 1
    builder = GraphBuilder()
    x, y = builder.input(float32, (8, 24)), builder.input(float32, (24, 8))
    a = (x * 2.0).apply("exp")
    b = a.apply("matmul", y)
    c = (y + 1.0).apply("tanh") + b.apply("sum")  # waits for the product of the first
    graph = builder.finish(a.apply("matmul", c).apply("sum"))
    program = _program(graph)
    assert all(len(s.node.outputs) == 1 for s in program.steps)
    (ours,) = run_emulated(program, _values(graph), fall_back=False)
    np.testing.assert_allclose(ours, run(graph, _values(graph))[0], rtol=1e-4)


def test_nests_of_one_kernel_that_read_each_other_are_functions_of_their_own() -> None:
    """A temporary between them."""
    builder = GraphBuilder()
    x = builder.input(float32, (6, 7))
    total = x.apply("cumsum", axis=1)
    graph = builder.finish(total * 2.0, total.apply("sum", axes=[1]))
    program = program_of(graph)
    for mine, theirs in zip(
        run_emulated(program, _values(graph), fall_back=False),
        run(graph, _values(graph)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
