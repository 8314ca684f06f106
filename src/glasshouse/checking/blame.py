"""Which rewrites of a pass are to blame for a wrong graph: the fewest that still make it wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from glasshouse.errors import GlasshouseError
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.rewriter import Place, Rewrite
from glasshouse.numerics.truth import Values, furthest, values_of
from glasshouse.numerics.widen import Array
from glasshouse.passes.base import Pass
from glasshouse.passes.context import PassContext
from glasshouse.passes.fewest_rewrites import fewest_rewrites
from glasshouse.passes.instrument import Instrument
from glasshouse.runtime.lineage import Lineage, StandsFor

Wrong = Callable[[Graph, Mapping[Place, Place]], bool]


@dataclass(frozen=True)
class Blame:
    """Rewrites of one pass, and the graph on which it began."""

    pass_: Pass
    rewrites: Sequence[Rewrite]  # the last one completes the fault
    before: Graph
    allowed: frozenset[int]  # numbers of the rewrites that are enough

    @property
    def rule(self) -> str:
        return self.rewrites[-1].rule if self.rewrites else ""

    @property
    def node(self) -> Node | None:
        """The first of the nodes that the last rewrite replaced."""
        replaced = self.rewrites[-1].before if self.rewrites else ()
        return next((n for i in replaced if (n := self.before.find(i)) is not None), None)


def differs_from(
    truth: Values, inputs: Sequence[Array], held: Mapping[str, Array], limit: float
) -> Wrong:
    """Wrong is what has a value further than `limit` from the truth, in float64."""

    def wrong(graph: Graph, stands_for: Mapping[Place, Place]) -> bool:
        try:
            got = values_of(graph, inputs, held)
        except GlasshouseError:
            return True
        return furthest(graph, got, truth, stands_for, limit).error > limit

    return wrong


def blame(lineage: Lineage, pass_name: str, wrong: Wrong, budget: int = 24) -> Blame | None:
    """The rewrites of the pass that make its graph wrong; None if it is not, when repeated."""
    before, pass_, base = _graph_before(lineage, pass_name)
    if before is None or pass_ is None:
        return None

    def trial(graph: Graph) -> tuple[Sequence[Instrument], Callable[[], bool]]:
        stands = StandsFor()
        stands.begin(lineage.traced, PassContext(passes=[]))
        stands.of = dict(base)
        return [stands], lambda: wrong(graph, stands.of)

    found = fewest_rewrites(pass_, before, trial, budget)
    if found is None:
        return None
    return Blame(pass_, found, before, frozenset(s.number for s in found))


def _graph_before(
    lineage: Lineage, pass_name: str
) -> tuple[Graph | None, Pass | None, Mapping[Place, Place]]:
    graphs: list[tuple[Pass | None, Graph, dict[Place, Place]]] = [
        (None, lineage.traced.copy(), {})
    ]
    found: list[tuple[Graph, Pass, Mapping[Place, Place]]] = []

    def see(pass_: Pass, graph: Graph, stands_for: Mapping[Place, Place]) -> None:
        _, before, stood = graphs[-1]
        if pass_.name == pass_name and not found:
            found.append((before, pass_, stood))
        graphs[-1] = (pass_, graph.copy(), dict(stands_for))

    lineage.replay(see)
    return found[0] if found else (None, None, {})
