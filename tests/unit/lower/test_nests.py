"""Loops of kernels: which are joined, which stay apart, and how each of them runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glasshouse.backend.cpu.target import CPU
from glasshouse.backend.interp.program import run_program
from glasshouse.ir import Graph, GraphBuilder, Value, symbol
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.queries import may_share, readers, simple, work
from glasshouse.lower.kernel.statement import Fold, For, Role, Statement
from glasshouse.lower.lower import lower
from glasshouse.lower.order import Order
from glasshouse.numpy_ref import run

Lowered = Callable[[Callable[[GraphBuilder], Any]], Kernel]


def loops(body: tuple[Statement, ...]) -> list[tuple[str, Role]]:
    """Extents and roles from the outermost loop in."""
    out: list[tuple[str, Role]] = []
    while inner := [s for s in body if isinstance(s, For)]:
        (one,) = inner
        out.append((str(one.loop.extent), one.role))
        body = one.body
    return out


def extents(kernel: Kernel) -> list[str]:
    return [extent for extent, _ in loops(kernel.body)]


def test_loops_are_joined_where_every_access_runs_on(lowered: Lowered) -> None:
    kernel = lowered(lambda b: b.input("float32", [2, 3, 4]).apply("relu"))
    assert loops(kernel.body) == [("24", Role.VECTOR)]


def test_loops_stay_apart_around_a_computed_index(lowered: Lowered) -> None:
    """What is rolled, clamped or looked up along one loop does not run on over both; of known
    sizes the first two would be cut."""
    n = symbol("n", 4, 9)
    rolled = lowered(lambda b: b.input("float32", [4, n]).apply("roll", axes=[1], shifts=[2]))
    assert extents(rolled) == ["4", "n"]
    padded = lowered(
        lambda b: b.input("float32", [4, n]).apply("pad", padding=[0, 1, 0, 1], mode="edge")
    )
    assert extents(padded)[0] == "4"
    taken = lowered(
        lambda b: b.input("float32", [5, 6]).apply("take", b.input("int64", [3]), axis=0)
    )
    assert extents(taken) == ["3", "6"]


def test_loops_stay_apart_inside_of_a_computed_index(lowered: Lowered) -> None:
    """Rows of 4 read as rows of 6: both loops stand in quotients, which stay as they are."""

    def group(b: GraphBuilder) -> Any:
        rows = b.input("float32", [3, 4]).apply("relu").apply("reshape", shape=(2, 6))
        return rows * b.input("float32", [2, 6])

    kernel = lowered(group)
    assert extents(kernel) == ["2", "6"]


def test_loops_stay_apart_where_a_position_is_computed_with(lowered: Lowered) -> None:
    kernel = lowered(lambda b: b.input("float32", [4, 6]).apply("triangle"))
    assert extents(kernel) == ["4", "6"]


def test_joined_around_a_computed_index_of_another_loop(lowered: Lowered) -> None:
    kernel = lowered(lambda b: b.input("float32", [4, 3, 6]).apply("roll", axes=[0], shifts=[1]))
    assert extents(kernel) == ["4", "18"]


@pytest.mark.parametrize(
    ("rows", "role"), [(255, Role.VECTOR), (256, Role.PARALLEL_VECTOR)], ids=["small", "large"]
)
def test_threads_share_what_is_large(rows: int, role: Role, lowered: Lowered) -> None:
    kernel = lowered(lambda b: b.input("float32", [rows, 64]).apply("relu"))
    assert loops(kernel.body) == [(str(rows * 64), role)]


def test_a_batch_that_may_be_one_is_shared_together_with_its_rows(lowered: Lowered) -> None:
    n = symbol("n", 1, 8)
    kernel = lowered(lambda b: b.input("float32", [n, 64, 512]).apply("permute", axes=(0, 2, 1)))
    assert loops(kernel.body) == [
        ("n", Role.PARALLEL), ("512", Role.PARALLEL), ("64", Role.SERIAL)
    ]  # fmt: skip


def test_sums_of_columns_fold_lane_by_lane(lowered: Lowered) -> None:
    kernel = lowered(lambda b: b.input("float32", [40, 48]).apply("sum", axes=[0]))
    assert loops(kernel.body) == [("48", Role.VECTOR)]
    (nest,) = kernel.body
    assert isinstance(nest, For)
    assert work(nest) == 48 + 40 * 48


@pytest.mark.parametrize(
    ("dtype", "role"), [("float64", Role.VECTOR), ("int32", Role.SERIAL)], ids=["wide", "whole"]
)
def test_elements_without_vectors_go_one_by_one(dtype: str, role: Role, lowered: Lowered) -> None:
    kernel = lowered(lambda b: b.input(dtype, [64]).apply("negative"))
    assert loops(kernel.body) == [("64", role)]


def test_bytes_go_through_vectors_only_where_they_are_made(lowered: Lowered) -> None:
    copied = lowered(lambda b: b.input("int8", [8, 4]).apply("slice", starts=[1, 0], ends=[7, 4]))
    assert loops(copied.body)[-1][1] is Role.SERIAL
    scale, zero = np.float32(0.5), np.int8(3)
    made = lowered(
        lambda b: b.input("float32", [32]).apply(
            "quantize", b.constant(scale), b.constant(zero), dtype=as_dtype("int8")
        )
    )
    assert loops(made.body) == [("32", Role.VECTOR)]


def test_queries_tell_what_may_be_updated_in_place(lowered: Lowered) -> None:
    def step(b: GraphBuilder) -> Any:
        rate = b.input("float32", [6]) * 0.5
        return b.input("float32", [4, 6]) - rate

    kernel = lowered(step)
    assert len(readers(kernel, "x0")) == len(readers(kernel, "x1")) == 1
    assert may_share(kernel, "x1", "y0"), "read at the place of the store, in front of it"
    assert not may_share(kernel, "x0", "y0"), "each element is read for several rows"
    norm = lowered(lambda b: b.input("float32", [4, 6]).apply("softmax", axis=-1))
    assert not may_share(norm, "x0", "y0"), "a fold reads it too"


def test_every_op_of_a_group_is_computed_by_a_statement(lowered: Lowered) -> None:
    """Moves are part of the statement that they feed; expanded ops of what they stand for."""

    def group(b: GraphBuilder) -> Any:
        x = b.input("float32", [4, 6]).apply("relu")
        return x.apply("reshape", shape=(2, 12)).apply("softmax", axis=-1) + 1.0

    kernel = lowered(group)
    assert kernel.ops == ("Relu", "Reshape", "Softmax", "Add")
    assert {op for s in simple(kernel.body) for op in s.ops} == {0, 1, 2, 3}


def test_much_behind_folds_goes_over_vectors_of_their_results(lowered: Lowered) -> None:
    def apart(b: GraphBuilder) -> Any:
        x, y = b.input("float32", [3, 1, 200]), b.input("float32", [1, 20, 200])
        return ((x - y) * (x - y)).apply("sum", axes=[2]).apply("exp")

    assert loops(lowered(apart).body) == [("3", Role.SERIAL), ("20", Role.VECTOR)]

    def little(b: GraphBuilder) -> Any:
        x, y = b.input("float32", [3, 1, 200]), b.input("float32", [1, 20, 200])
        return ((x - y) * (x - y)).apply("sum", axes=[2]) + 1.0

    assert loops(lowered(little).body)[-1][1] is Role.SERIAL


def test_an_index_from_data_is_known_before_the_loop_that_reads_with_it(lowered: Lowered) -> None:
    """Rows of a table are read by vectors, in loops and in folds."""
    rows = lowered(
        lambda b: b.input("float32", [5, 48]).apply("take", b.input("int64", [3]), axis=0)
    )
    assert loops(rows.body)[-1] == ("48", Role.VECTOR)
    summed = lowered(
        lambda b: (
            b.input("float32", [5, 48])
            .apply("take", b.input("int64", [3]), axis=0)
            .apply("sum", axes=[1])
        )
    )
    (fold,) = [s for s in simple(summed.body) if isinstance(s, Fold)]
    assert fold.role is Role.VECTOR

    def chosen(b: GraphBuilder) -> Any:
        places = b.input("bool", [3]).apply("where", b.input("int64", [3]), b.input("int64", [3]))
        return b.input("float32", [5, 48]).apply("take", places, axis=0).apply("sum", axes=[1])

    (fold,) = [s for s in simple(lowered(chosen).body) if isinstance(s, Fold)]
    assert fold.role is Role.VECTOR  # the test of the choice is known before, too

    spread = lowered(lambda b: b.input("int64", [3, 1]).apply("expand", shape=(3, 48)))
    assert loops(spread.body)[-1][1] is Role.SERIAL  # whole numbers are in no vector

    columns = lowered(
        lambda b: b.input("float32", [48, 5]).apply("take", b.input("int64", [3]), axis=1)
    )
    assert loops(columns.body)[-1][1] is Role.SERIAL  # each neighbour has an index of its own


def _scores(b: GraphBuilder, heads: int, function: str) -> Any:
    """Scores with a bias from a table, each at an index of its own."""
    bias = b.input("float32", [33]).apply("take", b.input("int64", [heads, 16, 32]), axis=0)
    return (b.input("float32", [4, 16, 32]) + bias).apply(function)


def _roles(kernel: Kernel) -> list[Role]:
    """Those of innermost loops, one nest after the other."""
    return [loops((nest,))[-1][1] for nest in kernel.body]


def test_what_has_no_vectors_lies_in_memory_before_an_exponential(lowered: Lowered) -> None:
    kernel = lowered(lambda b: _scores(b, 4, "tanh"))
    assert _roles(kernel) == [Role.SERIAL, Role.VECTOR]
    assert [b.dtype.name for b in kernel.buffers if b.role == "temporary"] == ["float32"]


@pytest.mark.parametrize(("heads", "nests"), [(4, [Role.SERIAL]), (1, [Role.SERIAL, Role.VECTOR])])
def test_what_has_no_vectors_lies_in_memory_where_it_is_used_often(
    heads: int, nests: list[Role], lowered: Lowered
) -> None:
    """Beside what costs little it is computed where it is needed, unless that is four times."""
    assert _roles(lowered(lambda b: _scores(b, heads, "relu"))) == nests


def test_an_index_that_an_exponential_gives_is_computed_in_one_loop(lowered: Lowered) -> None:
    """What waits for the value is nothing: no loop would go over vectors."""

    def looked_up(b: GraphBuilder) -> Any:
        at = b.input("float32", [64]).apply("sigmoid").apply("cast", dtype=as_dtype("int64"))
        return b.input("float32", [2]).apply("take", at, axis=0)

    assert _roles(lowered(looked_up)) == [Role.SERIAL]


def test_indices_that_lie_in_memory_hold_up_nothing(lowered: Lowered) -> None:
    """Columns of what is padded: whether a place lies inside is asked of its index, an operand."""

    def columns(b: GraphBuilder) -> Any:
        padded = b.input("float32", [5, 6]).apply("pad", padding=[0, 1, 0, 0])
        return padded.apply("take", b.input("int64", [3]), axis=1) * 2.0

    assert _roles(lowered(columns)) == [Role.SERIAL]


@pytest.mark.parametrize(("size", "nests"), [(16, 2), (2, 1)])
def test_an_operand_in_another_order_is_turned_before(size: int, nests: int) -> None:
    """One operand and the result have channels last, the other operand lies in rows; few elements
    are read where they lie."""
    b = GraphBuilder()
    x, y = (b.input("float32", [2, 32, size, size]) for _ in range(2))
    graph = b.finish(x.apply("relu") + y)
    (out,) = graph.outputs
    last = (0, 2, 3, 1)
    made = KernelBuilder(
        graph, CPU, buffers={x.value: "x0", y.value: "x1"},
        orders={y.value: last, out: last}, outputs={out: "y0"},
    )  # fmt: skip
    made.finish()
    assert len(made.statements) == nests
    innermost = loops(tuple(made.statements[-1:]))[-1][1]
    assert innermost.is_vector == (nests == 2)
    assert [t.role for t in made.temporaries] == ["temporary"] * (nests - 1)


def test_results_in_two_orders_end_turning_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result lies as one of the two operands does: to have both turned for one and back for
    the other never ended."""
    copied = KernelBuilder._copied

    def few(builder: KernelBuilder, value: Value, order: Order | None) -> str:
        assert len(builder.temporaries) < 4
        return copied(builder, value, order)

    monkeypatch.setattr(KernelBuilder, "_copied", few)
    b = GraphBuilder()
    x, y = (b.input("float32", [2, 32, 16, 16]) for _ in range(2))
    graph = b.finish(x.apply("relu") + y, x - y)
    rows, last = graph.outputs
    made = KernelBuilder(
        graph, CPU, buffers={x.value: "x0", y.value: "x1"},
        orders={y.value: (0, 2, 3, 1), last: (0, 2, 3, 1)}, outputs={rows: "y0", last: "y1"},
    )  # fmt: skip
    made.finish()
    assert len(made.statements) == 2 + len(made.temporaries)
    assert made.buffers[last] == "y1"


def test_folds_outside_do_not_hinder_the_loop_inside() -> None:
    """Channels last to channels first, behind a norm: strided folds, and much that follows."""
    inside, b = GraphBuilder(), GraphBuilder()
    x = inside.input("float32", [4, 20, 24]).apply("permute", axes=(0, 2, 1))
    body = inside.finish((x - x.apply("sum", axes=[1, 2], keepdims=True)).apply("exp"))
    fused = b.finish(b.input("float32", [4, 20, 24]).apply("fused", body=body))
    (kernel,) = lower(fused, CPU).kernels
    assert loops(kernel.body)[-1][1] is Role.VECTOR


@pytest.mark.parametrize(("columns", "innermost"), [(32, "224"), (4, "7")])
def test_folds_take_in_neighbours(columns: int, innermost: str, lowered: Lowered) -> None:
    """Of two folded axes the one whose elements lie side by side is innermost, if it is
    long; both are one loop then."""

    def turned(b: GraphBuilder) -> Any:
        x = b.input("float32", [3, 7, columns])
        return x.apply("permute", axes=[0, 2, 1]).apply("sum", axes=[1, 2])

    (fold,) = [s for s in _all(lowered(turned).body) if isinstance(s, Fold)]
    assert str(fold.loops[-1].extent) == innermost


def _fused(build: Callable[[GraphBuilder], Any]) -> tuple[Graph, Kernel]:
    """A graph of one fused node, whatever would be fused by itself, and its kernel."""
    inside, b = GraphBuilder(), GraphBuilder()
    body = inside.finish(build(inside))
    operands = [b.input(v.type.dtype, v.type.shape) for v in body.inputs]
    graph = b.finish(b.apply("fused", *operands, body=body))
    (kernel,) = lower(graph, CPU).kernels
    return graph, kernel


def _temporaries(kernel: Kernel) -> list[str]:
    return [str(b.size) for b in kernel.buffers if b.role == "temporary"]


@pytest.mark.parametrize(
    ("wide", "extents"), [(8, ["64"]), (9, ["8", "8"])], ids=["runs on", "does not"]
)
def test_a_reshape_inside_of_a_fold_splits_its_loop(wide: int, extents: list[str]) -> None:
    """Norms of channels, their pixels as one axis, read the image where it lies: where pixels run
    on, two loops are one again."""

    def norms(b: GraphBuilder) -> Any:
        x = b.input("float32", [12, 8, wide]).apply("slice", starts=[0, 0, 0], ends=[12, 8, 8])
        x = x.apply("exp").apply("reshape", shape=(4, 3, 64))
        return (x * x).apply("sum", axes=[2], keepdims=True).apply("sqrt")

    graph, kernel = _fused(norms)
    assert not _temporaries(kernel)
    (fold,) = [s for s in _all(kernel.body) if isinstance(s, Fold)]
    assert [str(x.extent) for x in fold.loops] == extents
    given = [np.random.default_rng(0).standard_normal((12, 8, wide)).astype(np.float32)]
    (found,), (wanted,) = run_program(lower(graph, CPU), given), run(graph, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_loops_of_a_fold_are_split_again() -> None:
    """What a reshape splits another one splits once more, beside a second fold."""

    def sums(b: GraphBuilder) -> Any:
        x = b.input("float32", [2, 3, 4, 5]).apply("permute", axes=(2, 0, 3, 1))
        x = x.apply("reshape", shape=(4, 30)).apply("permute", axes=(1, 0))
        x = x.apply("reshape", shape=(6, 20))
        return x.apply("sum", axes=[0, 1]) - x.apply("max", axes=[1])

    graph, kernel = _fused(sums)
    given = [np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)]
    (found,), (wanted,) = run_program(lower(graph, CPU), given), run(graph, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert not _temporaries(kernel)


def test_a_fold_inside_of_another_lies_in_memory_and_nothing_else() -> None:
    def spread(b: GraphBuilder) -> Any:
        x = b.input("float32", [6, 7]).apply("exp") * 2.0
        rows = x.apply("sum", axes=[1], keepdims=True)
        return (x / rows).apply("negative").apply("sum", axes=[0]) + 1.0

    graph, kernel = _fused(spread)
    assert _temporaries(kernel) == ["6"]
    given = [np.random.default_rng(0).standard_normal((6, 7)).astype(np.float32)]
    (found,), (wanted,) = run_program(lower(graph, CPU), given), run(graph, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def _all(body: tuple[Statement, ...]) -> list[Statement]:
    return [x for s in body for x in (s, *(_all(s.body) if isinstance(s, For) else ()))]


@pytest.mark.parametrize(("columns", "nests"), [(8, 2), (3, 1), (200, 1)])
def test_neighbours_that_fold_rows_fold_by_lane(columns: int, nests: int, lowered: Lowered) -> None:
    """Distances of points: the others lie by columns before. Rows of few elements are brought
    together one by one, long ones folded over vectors."""

    def distances(b: GraphBuilder) -> Any:
        x, y = (b.input("float64", [40, columns]) for _ in range(2))
        apart = x.apply("reshape", shape=(40, 1, columns)) - y.apply(
            "reshape", shape=(1, 40, columns)
        )
        return (apart * apart).apply("sum", axes=[2]).apply("sqrt")

    kernel = lowered(distances)
    assert len(kernel.body) == nests
    assert [b.role for b in kernel.buffers].count("temporary") == nests - 1
    if nests == 2:
        assert loops(kernel.body[-1:])[-1][1].is_vector
