"""Weights of a captured graph of which nothing is computed while compiling, so that all can be set.

Constants are folded into one another and built into code. A variable is neither, and one that no
run changes is set as a constant is.
"""

from __future__ import annotations

from collections.abc import Iterable

from glasshouse.ir.graph import Graph
from glasshouse.ir.sources import CONSTANT, VARIABLE


def keep_open(graph: Graph, names: Iterable[str]) -> None:
    """Make variables of the constants with these names. Of a graph that was just captured: nobody
    has looked at its nodes yet."""
    wanted = set(names)
    for node in graph.nodes:
        if node.op is CONSTANT and node.attrs["name"] in wanted:
            node.op = VARIABLE
