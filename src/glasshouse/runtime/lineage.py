"""What a compiled module remembers of the graph that it was traced to, and of the way from it.

The weights that passes left as they were are shared with the module; of the others, the graph keeps
those of the model alive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from glasshouse.collection import no_collection
from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Place, Rewrite
from glasshouse.passes.base import Pass
from glasshouse.passes.context import PassContext
from glasshouse.passes.instrument import Instrument
from glasshouse.passes.pipeline import run_pass


class StandsFor(Instrument):
    """Follows values through rewrites: `of` tells which traced value each one stands for."""

    def __init__(self) -> None:
        self.of: dict[Place, Place] = {}
        self._traced: set[int] = set()

    def begin(self, graph: Graph, ctx: PassContext) -> None:
        self.of = {}
        self._traced = {n.id for n in graph.nodes}

    def rewritten(self, graph: Graph, step: Rewrite) -> None:
        for old, new in step.equal:
            stands = self.of.get(old, old)
            if stands[0] in self._traced and new[0] not in self._traced:
                self.of.setdefault(new, stands)


@dataclass(frozen=True)
class Lineage:
    """The traced graph, the passes over graphs that ran on it, and which values stand for which."""

    traced: Graph
    passes: Sequence[Pass]
    stands_for: Mapping[Place, Place]

    def replay(self, see: Callable[[Pass, Graph, Mapping[Place, Place]], None]) -> None:
        """Run the passes again; after each that changed something, `see` is given the graph."""
        graph = self.traced.copy()
        stands = StandsFor()
        ctx = PassContext(passes=[], instruments=[stands, _Told(see, stands)])
        with no_collection():
            stands.begin(graph, ctx)
            for pass_ in self.passes:
                run_pass(pass_, graph, ctx)


class _Told(Instrument):
    """Tells of the graph after each pass."""

    def __init__(
        self, see: Callable[[Pass, Graph, Mapping[Place, Place]], None], stands: StandsFor
    ) -> None:
        self._see = see
        self._stands = stands

    def end_pass(self, pass_: Pass, graph: Graph, seconds: float, depth: int) -> None:
        if not pass_.inner():
            self._see(pass_, graph, self._stands.of)
