"""How a run of passes becomes a recording: one stage a pass, with every decision."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Reject, Rewrite
from glasshouse.passes.base import Pass
from glasshouse.passes.instrument import Instrument
from glasshouse.record.reader import Recording
from glasshouse.record.recorder import Recorder
from glasshouse.record.schema import ErrorRow

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext


class Record(Instrument):
    """Writes the recording to `path` at the end, also when a pass fails; gives it as `recording`.

    Without a path it is written down when it is asked for. `recorder` can be used further: a
    backend adds kernels and times before it is finished again.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, sources: bool = True) -> None:
        self.path = path
        self.sources = sources
        self.recorder = Recorder(sources=sources)
        self._recording: Recording | None = None
        self._has_ended = False
        self._others: list[Instrument] = []

    @property
    def recording(self) -> Recording | None:
        """What happened in the last run of passes; None until it has ended."""
        if self._recording is None and self._has_ended:
            self._recording = self.recorder.finish()
        return self._recording

    def begin(self, graph: Graph, ctx: PassContext) -> None:
        self.recorder = Recorder(graph.name or "model", self.sources)
        self.recorder.facts["target"] = ctx.target.name
        self.recorder.facts["precision"] = ctx.precision
        self.recorder.begin(graph)
        self._others = list(ctx.instruments)

    def begin_pass(self, pass_: Pass, graph: Graph, depth: int) -> None:
        if not pass_.inner():
            name = type(pass_).__name__
            self.recorder.open_stage(name, doc=pass_.doc, options=pass_.options())

    def end_pass(self, pass_: Pass, graph: Graph, seconds: float, depth: int) -> None:
        if not pass_.inner():
            self.recorder.close_stage(graph, seconds)

    def rewritten(self, graph: Graph, step: Rewrite) -> None:
        self.recorder.rewritten(step)

    def rejected(self, graph: Graph, step: Reject) -> None:
        self.recorder.rejected(step)

    def failed(self, pass_: Pass, graph: Graph, error: BaseException) -> None:
        facts = self.recorder.facts
        if "failed" not in facts:  # a sequence fails with its part
            facts["failed"] = f"{pass_.title}: {error}"
            self.recorder.close_stage(graph)
            self._finish(graph)

    def end(self, graph: Graph) -> None:
        self._finish(graph)

    def _finish(self, graph: Graph) -> None:
        for other in self._others:
            for number, (error, tolerance) in enumerate(other.measured(), 1):
                owner = self.recorder.graph
                assert owner is not None  # begin came first
                for value in graph.outputs[:1]:
                    owner.add(
                        ErrorRow(
                            number, value.node.id, value.index, error.max_abs, error.max_rel,
                            error.scaled, 0.0, tolerance,
                        )
                    )  # fmt: skip
        self._others = []
        self.recorder.read_sources()
        self._recording, self._has_ended = None, True
        if self.path is not None and self.recording is not None:
            self.recording.save(self.path)
