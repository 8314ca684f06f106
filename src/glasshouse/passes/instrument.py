"""What can watch passes: an instrument sees begin, rewrite, reject, end and error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Listener
from glasshouse.passes.base import Pass

if TYPE_CHECKING:
    from glasshouse.numerics.measure import Error
    from glasshouse.passes.context import PassContext


class Instrument(Listener):
    """Override what is of interest; `rewritten` and `rejected` come from `Listener`.

    `depth` is 0 for a pass of the pipeline and more for a pass inside a `PassSequence`.
    """

    def begin(self, graph: Graph, ctx: PassContext) -> None:
        """The pipeline starts, with the graph as given."""

    def begin_pass(self, pass_: Pass, graph: Graph, depth: int) -> None: ...

    def end_pass(self, pass_: Pass, graph: Graph, seconds: float, depth: int) -> None: ...

    def result(self, pass_: Pass, graph: Graph, result: object) -> None:
        """A pass returned a table."""

    def failed(self, pass_: Pass, graph: Graph, error: BaseException) -> None:
        """A pass raised, or left a broken graph; the error goes on to the caller."""

    def end(self, graph: Graph) -> None:
        """The pipeline is through."""

    def measured(self) -> Sequence[tuple[Error, float]]:
        """Errors after each pass, with the tolerances: what the recording shows of them."""
        return ()
