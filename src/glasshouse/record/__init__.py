"""The recording: its schema, a builder that makes one and a reader that opens one lazily."""

from glasshouse.record.columns import Column, Table
from glasshouse.record.graph_view import GraphView, StageView
from glasshouse.record.graph_writer import GraphWriter
from glasshouse.record.reader import Recording
from glasshouse.record.writer import RecordingBuilder

__all__ = [
    "Column",
    "GraphWriter",
    "GraphView",
    "Recording",
    "RecordingBuilder",
    "StageView",
    "Table",
]
