"""Whether passes kept the meaning: outputs after each against those of the first graph.

When the tolerance breaks, the pass is repeated from the graph before it with some of its rewrites
left out, until the smallest set is found that breaks it; that set is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glasshouse.errors import ExecutionError, NumericsError
from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Rewrite
from glasshouse.numerics import Error, compare_all, random_inputs, tolerance_of
from glasshouse.numpy_ref import run
from glasshouse.passes.base import Pass, ProgramPass
from glasshouse.passes.instrument import Instrument

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext

Array = np.ndarray[Any, Any]


class CheckNumerics(Instrument):
    """After every pass, `errors` has (error, tolerance); `blame` the rewrites that broke it."""

    def __init__(
        self,
        inputs: Sequence[Any] | Callable[[Graph], Sequence[Any]] | None = None,
        tolerance: float | None = None,
        raise_error: bool = True,
    ) -> None:
        self.inputs = inputs
        self.tolerance = tolerance
        self.raise_error = raise_error
        self.errors: list[tuple[Error, float]] = []
        self.blame: list[Rewrite] = []
        self.broken_pass = ""
        self._given: list[Any] = []
        self._wanted: list[Array] = []
        self._before: Graph | None = None

    def begin(self, graph: Graph, ctx: PassContext) -> None:
        self.errors, self.blame, self.broken_pass = [], [], ""
        if self.inputs is None:
            self._given = list(random_inputs(graph))
        else:
            self._given = list(self.inputs(graph) if callable(self.inputs) else self.inputs)
        try:
            self._wanted = self._run(graph)
        except ExecutionError as error:
            if self.inputs is not None:
                raise
            raise NumericsError(
                f"the graph cannot be checked on random inputs: {error.message}",
                error.where,
                "give some that suit it: ctx.check_numerics_instrument(inputs=[...])",
            ) from None

    def begin_pass(self, pass_: Pass, graph: Graph, depth: int) -> None:
        if not isinstance(pass_, ProgramPass):  # those leave the graph as it is
            self._before = graph.copy()

    def end_pass(self, pass_: Pass, graph: Graph, seconds: float, depth: int) -> None:
        if pass_.inner() or self.broken_pass or isinstance(pass_, ProgramPass):
            return
        error, limit = self._error(graph)
        self.errors.append((error, limit))
        if error.scaled <= limit:
            return
        self.broken_pass = pass_.title
        self.blame = self._bisect(pass_)
        if self.raise_error:
            raise NumericsError(self._message(pass_, error, limit), self._where(graph))

    def measured(self) -> Sequence[tuple[Error, float]]:
        return self.errors

    def _run(self, graph: Graph) -> list[Array]:
        state: dict[str, Array] = {}
        outputs = run(graph, self._given, variables=state)
        return [*outputs, *(state[name] for name in sorted(state))]

    def _error(self, graph: Graph) -> tuple[Error, float]:
        limit = tolerance_of(graph) if self.tolerance is None else self.tolerance
        return compare_all(self._run(graph), self._wanted), limit

    def _bisect(self, pass_: Pass) -> list[Rewrite]:
        # It imports the pipeline, which imports the context, which imports us.
        from glasshouse.passes.fewest_rewrites import fewest_rewrites

        def trial(graph: Graph) -> tuple[Sequence[Instrument], Callable[[], bool]]:
            def is_wrong() -> bool:
                error, limit = self._error(graph)
                return error.scaled > limit

            return (), is_wrong

        assert self._before is not None  # begin_pass came first
        # Not wrong when it is repeated: the pass depends on something else.
        return fewest_rewrites(pass_, self._before, trial) or []

    def _message(self, pass_: Pass, error: Error, limit: float) -> str:
        text = f"{pass_.title} changed the numbers: error {error}, tolerance {limit:.3g}"
        if not self.blame:
            return text + "; no smaller set of its rewrites does"
        steps = [
            f"rule {s.rule or s.pass_name} on {', '.join(f'%{i}' for i in s.before[:6])}: {s.why}"
            for s in self.blame[-3:]
        ]
        number = len(self.blame)
        count = "this rewrite breaks" if number == 1 else f"these {number} rewrites together break"
        return f"{text}; {count} it: " + "; ".join(steps)

    def _where(self, graph: Graph) -> str:
        if not self.blame or self._before is None:
            return ""
        node = self._before.find(self.blame[-1].before[0]) if self.blame[-1].before else None
        return str(node.origin.source) if node else ""
