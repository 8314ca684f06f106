"""Helpers of the tests of passes."""

from __future__ import annotations

import pytest

from glasshouse.ir import Graph, GraphBuilder
from glasshouse.passes import Instrument


class Watch(Instrument):
    """Keeps every event as a line."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.rewrites: list = []
        self.rejects: list = []

    def begin(self, graph, ctx) -> None:
        self.events.append("begin")

    def begin_pass(self, pass_, graph, depth) -> None:
        self.events.append(f"begin {pass_.title} {depth}")

    def rewritten(self, graph, step) -> None:
        self.rewrites.append(step)

    def rejected(self, graph, step) -> None:
        self.rejects.append(step)

    def end_pass(self, pass_, graph, seconds, depth) -> None:
        assert seconds >= 0
        self.events.append(f"end {pass_.title} {depth}")

    def failed(self, pass_, graph, error) -> None:
        self.events.append(f"failed {pass_.title}: {type(error).__name__}")

    def end(self, graph) -> None:
        self.events.append("end")


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def small() -> Graph:
    """relu(relu(x @ w) * 1)"""
    b = GraphBuilder("small")
    x = b.input("float32", (2, 3), "x")
    y = (x @ b.weight([[1.0, -1.0], [2.0, 0.5], [-1.0, 1.0]], "float32", "w")).apply("relu")
    return b.finish((y * 1.0).apply("relu"))
