"""Gradients of parts of one value are put together without zeros, sums and copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glasshouse.ir import GraphBuilder, op_named
from glasshouse.ir.dtype import float32
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize

_SHAPE = (2, 5, 3, 4, 6)


def _part(x: Any, number: int) -> Any:
    """One of three parts, its axes in another order, as attention wants it."""
    starts, ends = [0, 0, number, 0, 0], [2, 5, number + 1, 4, 6]
    cut = x.apply("slice", starts=starts, ends=ends)
    whole = cut.apply("reshape", shape=(2, 5, 4, 6))
    return whole.apply("permute", axes=(0, 2, 1, 3)).apply("reshape", shape=(1, 2, 4, 5, 6))


def _padded(builder: GraphBuilder, part: Any, begin: int) -> Any:
    """With zeros before and behind it, as the gradient of a selection has them."""
    pieces = [part]
    for before, size in ((True, begin), (False, 2 - begin)):
        if size:
            attrs = {"shape": (size, 2, 4, 5, 6), "value": 0.0, "dtype": float32}
            full = builder.wrap(op_named("full").emit(builder, [], attrs).outputs[0])
            pieces.insert(0, full) if before else pieces.append(full)
    return pieces[0].apply("concat", *pieces[1:], axis=0)


def _summed(order: tuple[int, int, int], places: tuple[int, int, int]) -> Any:
    builder = GraphBuilder()
    x = builder.input("float32", _SHAPE)
    first, second, third = (
        _padded(builder, _part(x, part), place) for part, place in zip(order, places, strict=True)
    )
    together = (first + second + third).apply("permute", axes=(1, 3, 0, 2, 4))
    return builder.finish(together.apply("reshape", shape=(10, 72)) * 2.0)


@pytest.mark.parametrize(
    ("order", "places", "left"),
    [
        ((2, 0, 1), (2, 0, 1), set()),  # each at its own place: the value itself
        ((1, 0, 2), (0, 1, 2), {"concat"}),  # in another order: side by side, but moved
        ((0, 1, 2), (0, 0, 1), {"add", "concat"}),  # two at one place: a sum
    ],
)
def test_parts_that_are_summed(
    order: tuple[int, int, int], places: tuple[int, int, int], left: set[str]
) -> None:
    graph = _summed(order, places)
    given = np.random.default_rng(0).standard_normal(_SHAPE, "f")
    small = optimize(graph)
    np.testing.assert_array_equal(run(small, [given])[0], run(graph, [given])[0])
    names: set[str] = set()
    for node in small.nodes:
        body = node.attrs.get("body")
        names |= {n.op.name for n in body.nodes} if node.op.name == "fused" else {node.op.name}
    assert names & {"add", "concat"} == left
