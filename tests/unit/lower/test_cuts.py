"""Nests behind a concatenation, a border or a roll: one for each piece, and each reads its piece
alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glasshouse.backend.cpu.target import CPU
from glasshouse.backend.interp.program import run_program
from glasshouse.ir import Graph, GraphBuilder, symbol
from glasshouse.lower.cuts import MOST_PIECES
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.queries import readers, simple
from glasshouse.lower.kernel.statement import For, Store
from glasshouse.lower.kernel.verify import verify_kernel
from glasshouse.lower.lower import lower
from glasshouse.numpy_ref import run

Group = Callable[[GraphBuilder], Any]


def joined(*pieces: Any, axis: int) -> Any:
    return pieces[0].apply("concat", *pieces[1:], axis=axis)


def pieces(b: GraphBuilder, *shapes: tuple[Any, ...]) -> list[Any]:
    return [b.input("float32", shape) for shape in shapes]


def last_axis(b: GraphBuilder) -> Any:
    return joined(*pieces(b, (4, 3), (4, 1), (4, 0), (4, 20)), axis=1).apply("relu")


def first_axis(b: GraphBuilder) -> Any:
    x, y = pieces(b, (2, 3, 5), (1, 3, 5))
    return joined(x, y, x.apply("exp"), axis=-3) * b.input("float32", (5,))


def middle_axis(b: GraphBuilder) -> Any:
    x, y = pieces(b, (3, 4, 5), (3, 2, 5))
    whole = joined(x, y, axis=1)
    return whole + whole.apply("tanh")


def inside_of_each_other(b: GraphBuilder) -> Any:
    x, y, z = pieces(b, (3, 4), (3, 2), (5, 6))
    return joined(joined(x, y, axis=1), z, axis=0)


def along_one_axis(b: GraphBuilder) -> Any:
    x, y, z = pieces(b, (3, 4), (3, 2), (3, 6))
    return joined(joined(x, y, axis=1).apply("tanh"), joined(z, y, axis=1), axis=1)


def rolled_as_a_row(b: GraphBuilder) -> Any:
    (x,) = pieces(b, (3, 40))
    row = x.apply("reshape", shape=(120,)).apply("roll", shifts=(7,), axes=(0,))
    return row.apply("reshape", shape=(3, 2, 20)).apply("reshape", shape=(3, 40))


def rotated(b: GraphBuilder) -> Any:
    (x,) = pieces(b, (2, 6, 8))
    left, right = (x.apply("slice", starts=(0, 0, i), ends=(2, 6, i + 4), steps=()) for i in (0, 4))
    return joined(right.apply("negative"), left, axis=2) * x


def behind_a_reshape(b: GraphBuilder) -> Any:
    return joined(*pieces(b, (4, 3), (4, 5)), axis=1).apply("reshape", shape=(2, 16)).apply("relu")


def chosen_among_many(b: GraphBuilder) -> Any:
    """Too many to be cut with an op behind them, and too many for choices inside of each other."""
    return joined(*pieces(b, *[(2, i % 3) for i in range(900)]), axis=1).apply("relu")


def padded(b: GraphBuilder) -> Any:
    (x,) = pieces(b, (3, 40))
    return x.apply("pad", padding=(0, 2, 0, 3), mode="constant", value=0.5).apply("relu")


def padded_outside(b: GraphBuilder) -> Any:
    """Rows are padded at two sides, columns at one."""
    (x,) = pieces(b, (3, 4, 40))
    return x.apply("pad", padding=(0, 1, 0, 0, 2, 1), mode="constant", value=0.0).apply("exp")


def mirrored(b: GraphBuilder) -> Any:
    (x,) = pieces(b, (3, 40))
    return x.apply("pad", padding=(0, 2, 0, 3), mode="reflect", value=0.0).apply("relu")


def rolled_outside(b: GraphBuilder) -> Any:
    (x,) = pieces(b, (3, 5, 40))
    return x.apply("roll", shifts=(-1,), axes=(1,)).apply("relu")


def rolled(b: GraphBuilder) -> Any:
    (x,) = pieces(b, (3, 5, 40))
    return x.apply("roll", shifts=(-1, 45), axes=(1, 2)).apply("relu")


CUT = {
    last_axis: 3, first_axis: 3, middle_axis: 2, rotated: 2,
    inside_of_each_other: 3, along_one_axis: 4, rolled_as_a_row: 2,
    padded: 3, padded_outside: 2, mirrored: 3, rolled: 2, rolled_outside: 1,
}  # fmt: skip
"""Groups, and the parts that each falls apart into."""
BORDERS = (padded_outside, mirrored, rolled, rolled_outside)
"""Groups that compute places along another axis, or at the border itself."""


def fused(group: Group) -> Graph:
    """A graph of one group."""
    inside = GraphBuilder()
    body = inside.finish(group(inside))
    b = GraphBuilder()
    made = [b.input(v.type.dtype, v.type.shape) for v in body.inputs]
    return b.finish(made[0].apply("fused", *made[1:], body=body))


def parts_of(kernel: Kernel) -> int:
    """How many parts of its one output a kernel computes apart."""
    return sum(isinstance(s, Store) for s in simple(kernel.body))


def kernel_of(group: Group) -> Kernel:
    (step,) = lower(fused(group), CPU).steps
    verify_kernel(step.kernel)
    return step.kernel


@pytest.mark.parametrize(
    "group", [*CUT, behind_a_reshape, chosen_among_many], ids=lambda g: g.__name__
)
def test_pieces_mean_the_whole(group: Group) -> None:
    graph = fused(group)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs]
    given[-1].flat[0] = np.nan
    (found,) = run_program(lower(graph, CPU), given)
    (wanted,) = run(graph, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("group", CUT, ids=lambda g: g.__name__)
def test_a_nest_for_each_piece(group: Group) -> None:
    kernel = kernel_of(group)
    assert parts_of(kernel) == CUT[group]
    for name in (b.name for b in kernel.buffers if b.name.startswith("x") and group not in BORDERS):
        assert all(load.index.is_affine for _, load in readers(kernel, name))


def test_what_only_moves_is_computed_by_the_stores_too() -> None:
    """Reshapes behind what falls apart are ops of the kernel as all others are; the first one is
    the operand itself."""
    kernel = kernel_of(rolled_as_a_row)
    assert {op for s in simple(kernel.body) for op in s.ops} == {1, 2, 3}


def test_a_batch_of_any_size_is_cut() -> None:
    batch = symbol("batch", 1, 64)
    kernel = kernel_of(lambda b: joined(*pieces(b, (batch, 3), (batch, 9)), axis=1).apply("relu"))
    assert parts_of(kernel) == 2


def test_what_is_not_cut() -> None:
    """A fold beside it (each nest would compute it again), sizes that are not known, too many."""

    def with_fold(b: GraphBuilder) -> Any:
        x, y = pieces(b, (4, 3), (4, 5))
        total = b.input("float32", (4, 100)).apply("sum", axes=[1], keepdims=True)
        return joined(x, y, axis=1) * total

    def of_any_size(b: GraphBuilder) -> Any:
        return joined(*pieces(b, (symbol("n", 1, 9), 3), (4, 3)), axis=0).apply("relu")

    def many(b: GraphBuilder) -> Any:
        return joined(*pieces(b, *[(2, 2)] * (MOST_PIECES + 1)), axis=1)

    for group in (with_fold, of_any_size, many):
        assert parts_of(kernel_of(group)) == 1, group.__name__


@pytest.mark.parametrize(
    "group", [padded, padded_outside, rolled, rolled_outside], ids=lambda g: g.__name__
)
def test_what_is_inside_of_borders_runs_over_vectors(group: Group) -> None:
    """Along the last axis every place is one step behind its neighbour's; borders are short."""
    pending = list(kernel_of(group).body)
    while pending:
        nest = pending.pop()
        if isinstance(nest, For) and any(isinstance(s, For) for s in nest.body):
            pending += nest.body
        else:
            assert isinstance(nest, For)
            assert nest.role.is_vector or nest.loop.extent < 32, nest
