"""The error of every stage against the truth: a wrong rewrite shows at the pass that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Place
from glasshouse.numerics.measure import Error
from glasshouse.numerics.tolerance import tolerance_of
from glasshouse.numerics.truth import Values, furthest, values_of
from glasshouse.passes.base import Pass
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.lineage import Lineage


@dataclass(frozen=True)
class StageError:
    """A pass, and the value of its graph that is furthest from what it stands for.

    `first` is the first value past the tolerance: what the wrong rewrite made, or what reads it.
    """

    stage: int  # in the recording; the traced graph is 0
    pass_: Pass
    place: Place
    found: Error
    error: float
    tolerance: float
    first: Place | None

    @property
    def wrong(self) -> bool:
        return self.error > self.tolerance


def stage_errors(
    lineage: Lineage,
    truth: Values,
    inputs: Sequence[Array],
    held: Mapping[str, Array],
    tolerance: float | None = None,
) -> tuple[list[StageError], Values]:
    """One for each pass over graphs, and the values of the last graph in float64.

    A pass that changed nothing has the error of the one before it.
    """
    out: list[StageError] = []
    last = [truth]
    shape: list[object] = [_shape(lineage.traced)]

    def see(pass_: Pass, graph: Graph, stands_for: Mapping[Place, Place]) -> None:
        now = _shape(graph)
        limit = tolerance_of(graph) if tolerance is None else tolerance
        stage = len(out) + 1
        if now == shape[0]:
            before = out[-1] if out else None
            nothing = StageError(stage, pass_, truth.results[0], Error(), 0.0, limit, None)
            same = before or nothing
            out.append(
                StageError(
                    stage, pass_, same.place, same.found, same.error, same.tolerance, same.first
                )
            )
            return
        shape[0] = now
        last[0] = values_of(graph, inputs, held)
        worst = furthest(graph, last[0], truth, stands_for, limit)
        place = worst.place if worst.place[0] >= 0 else last[0].results[0]
        out.append(StageError(stage, pass_, place, worst.found, worst.error, limit, worst.first))

    lineage.replay(see)
    return out, last[0]


def _shape(graph: Graph) -> object:
    """Equal if a pass did nothing: the nodes with what they read, and what leaves the graph."""
    nodes = [(n.id, tuple((v.node.id, v.index) for v in n.inputs)) for n in graph.nodes]
    results = [*graph.outputs, *graph.updates.values()]
    return nodes, [(v.node.id, v.index) for v in results]
