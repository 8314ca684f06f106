"""Unrolled steps that differ in where a slice begins share one kernel; the call says where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glasshouse.backend.interp.program import run_program
from glasshouse.ir import Expr, Graph, GraphBuilder, symbol
from glasshouse.lower.kernel.queries import position_range, readers
from glasshouse.lower.kernel.shift import counted_from_first_read
from glasshouse.lower.program import Call, Program
from glasshouse.numpy_ref import run

Decided = Callable[..., Program]


def unrolled(steps: int, axis: int = 1) -> Graph:
    """A loop over time in Python; each step leaves the graph and ends in a softmax, so that
    none is fused into the next."""
    b = GraphBuilder()
    x = b.input("float32", [4, steps, 33] if axis == 1 else [steps, 4, 33])
    state, out = b.input("float32", [4, 33]), []
    for t in range(steps):
        starts = [0, 0, 0]
        starts[axis] = t
        ends = [4, steps, 33] if axis == 1 else [steps, 4, 33]
        ends[axis] = t + 1
        now = x.apply("slice", starts=starts, ends=ends).apply("reshape", shape=[4, 33])
        state = (state * 0.5 + now).apply("softmax", axis=-1)
        out.append(state)
    return b.finish(*out)


def calls(program: Program) -> list[Call]:
    return [s for s in program.steps if isinstance(s, Call)]


@pytest.mark.parametrize("axis", [0, 1])
def test_steps_share_a_kernel(decided: Decided, axis: int) -> None:
    program = decided(unrolled(12, axis))
    few = {c.kernel.name for c in calls(decided(unrolled(3, axis)))}
    assert {c.kernel.name for c in calls(program)} == few  # as many for any number of steps
    sliced = [c.offsets for c in calls(program) if "Slice" in c.kernel.ops]
    width = 33 if axis == 1 else 4 * 33
    assert [max(offsets) for offsets in sliced[-9:]] == [t * width for t in range(3, 12)]


def test_steps_give_what_the_graph_means(decided: Decided) -> None:
    rng = np.random.default_rng(0)
    x, start = rng.normal(size=(4, 7, 33)).astype("f"), rng.normal(size=(4, 33)).astype("f")
    x[0, 3, :5] = [np.nan, np.inf, -np.inf, -0.0, 1e-42]
    graph = unrolled(7)
    found = run_program(decided(graph), [x, start])
    for ours, theirs in zip(found, run(graph, [x, start]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def flipped(b: GraphBuilder) -> Expr:
    cut = b.input("float32", [10]).apply("slice", starts=[3], ends=[9])
    return cut.apply("flip", axes=[0]) * 2.0


def of_both_ends(b: GraphBuilder) -> Expr:
    x = b.input("float32", [10])
    parts = [x.apply("slice", starts=[k], ends=[k + 4]) for k in (2, 5)]
    return parts[0] * parts[1]


def gathered(b: GraphBuilder) -> Expr:
    cut = b.input("float32", [10]).apply("slice", starts=[4], ends=[9])
    return cut.apply("take", b.input("int64", [3]), axis=0) + 1.0


@pytest.mark.parametrize(("build", "start"), [(flipped, 3), (of_both_ends, 2), (gathered, 4)])
def test_first_read(decided: Decided, build: Callable[[GraphBuilder], Expr], start: int) -> None:
    """Backwards, at two places, at places from data: nothing is read before the first."""
    b = GraphBuilder()
    graph = b.finish(build(b))
    (call,) = calls(decided(graph))
    assert call.offsets[0] == start
    assert min(position_range(load.index)[0] for _, load in readers(call.kernel, "x0")) == 0
    given: list[Any] = [np.arange(10, dtype="f") ** 2, np.array([0, -1, 4])]
    given = given[: len(graph.inputs)]
    np.testing.assert_array_equal(run_program(decided(graph), given)[0], run(graph, given)[0])


def test_whole_operands_stay(decided: Decided) -> None:
    b = GraphBuilder()
    n = symbol("n", 1, 64)
    x = b.input("float32", [n, 8])
    (call,) = calls(decided(b.finish((x + 1.0).apply("softmax", axis=-1))))
    assert not any(call.offsets)
    assert counted_from_first_read(call.kernel)[0] is call.kernel
