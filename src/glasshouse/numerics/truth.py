"""The truth about a model: every value of its traced graph, computed in float64.

Whatever a compiler makes of the graph is compared with this: graphs after each pass, and kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.rewriter import Place, place_of
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.numerics.measure import Error, compare
from glasshouse.numerics.widen import Array, wide, widened
from glasshouse.numpy_ref import run

FLOOR = 1e-3
"""Sizes below this count as this, so that what should be 0 and is 1e-17 is no error: a wholly wrong
value is seen down to 1e-8 where the tolerance is 1e-5."""


@dataclass(frozen=True)
class Values:
    """What the values of one graph were in a run."""

    by_place: Mapping[Place, Array]
    results: tuple[Place, ...]  # outputs, then the new values of variables


@dataclass(frozen=True)
class Worst:
    """The value of a graph that is furthest from the truth; `error` over its size."""

    place: Place
    found: Error
    error: float
    first: Place | None = None  # in the order of computing, the first past the tolerance


def values_of(
    graph: Graph, inputs: Sequence[Array], held: Mapping[str, Array] | None = None
) -> Values:
    """Every value of a graph in float64; `held` as in `widened`, inputs as they are stored."""
    seen: dict[Place, Array] = {}

    def observe(node: Node, outputs: Sequence[Array]) -> None:
        for port, array in enumerate(outputs):
            seen[node.id, port] = array

    given = [wide(x, v.type.dtype) for x, v in zip(inputs, graph.inputs, strict=True)]
    run(widened(graph, held), given, observer=observe)
    results = [*graph.outputs, *graph.updates.values()]
    return Values(seen, tuple(place_of(v) for v in results))


def furthest(
    graph: Graph, got: Values, truth: Values, stands_for: Mapping[Place, Place], limit: float
) -> Worst:
    """The worst of a graph's values, among those that stand for a value of the traced graph.

    The results count whatever they stand for: they are compared one by one.
    """
    wanted = {p: stands_for.get(p, p) for p in got.by_place}
    wanted |= dict(zip(got.results, truth.results, strict=True))
    worst, first = Worst((-1, 0), Error(), 0.0), None
    for node in graph.nodes:
        if node.op is CONSTANT or node.op is VARIABLE:
            continue
        for port in range(len(node.outputs)):
            place = node.id, port
            true = truth.by_place.get(wanted[place])
            if true is None or true.shape != got.by_place[place].shape:
                continue  # where data decides a size, float64 may decide otherwise
            found = compare(got.by_place[place], true)
            error = relative(found)
            if error > limit and first is None:
                first = place
            if error > worst.error:
                worst = Worst(place, found, error)
    return Worst(worst.place, worst.found, worst.error, first)


def relative(error: Error) -> float:
    """An error over the size of what was wanted, where sizes below `FLOOR` count as that."""
    return error.max_abs / (error.largest + FLOOR) if not error.wrong else float("inf")
