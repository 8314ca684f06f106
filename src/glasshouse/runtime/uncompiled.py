"""Graphs that could not be compiled: the reference executor runs them, and a recording says why."""

from __future__ import annotations

from glasshouse.ir.graph import Graph
from glasshouse.record.reader import Recording
from glasshouse.record.recorder import Recorder
from glasshouse.record.writer import RecordingBuilder


def uncompiled(graph: Graph, why: str) -> Recording:
    """The graph as it was captured, with the reason among the facts."""
    recorder = Recorder(graph.name or "model")
    recorder.begin(graph, "captured")
    builder = RecordingBuilder.of(recorder.finish())
    builder.facts["executor"] = "reference"
    builder.facts["not compiled"] = why
    return builder.finish()
