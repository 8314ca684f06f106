"""The fewest rewrites of a pass that still make its graph wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Rewrite
from glasshouse.numerics.bisect import Allows, smallest_failing
from glasshouse.passes.base import Pass
from glasshouse.passes.instrument import Instrument
from glasshouse.passes.pipeline import apply_pass

Trial = Callable[[Graph], tuple[Sequence[Instrument], Callable[[], bool]]]
"""From a copy of the graph: what watches the pass on it, and whether it is wrong afterwards."""


class _Taken(Instrument):
    def __init__(self) -> None:
        self.steps: list[Rewrite] = []

    def rewritten(self, graph: Graph, step: Rewrite) -> None:
        self.steps.append(step)


def fewest_rewrites(
    pass_: Pass, before: Graph, trial: Trial, budget: int = 64
) -> list[Rewrite] | None:
    """Those that are to blame, the last of which completes the fault; None if the graph is right
    when the pass is repeated."""
    failing: list[Rewrite] = []

    def fails(allows: Allows) -> bool:
        graph, taken = before.copy(), _Taken()
        watching, is_wrong = trial(graph)
        try:
            apply_pass(pass_, graph, [taken, *watching], allows)
        except Exception:  # a pass may need the rewrites that are left out: that tells nothing
            return False
        if is_wrong():
            failing[:] = taken.steps
            return True
        return False

    if not fails(lambda n: True):
        return None
    most = max((s.number for s in failing), default=0) + 1
    smallest_failing(most, fails, budget)
    return failing
