"""When barriers go: after fusion, when nothing could merge across them any more."""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ops.barrier import barrier
from glasshouse.passes.base import Pass, register_pass


@register_pass()
@dataclass(frozen=True)
class EliminateBarrier(Pass):
    """Take out barriers, which have kept passes from merging what they separate."""

    def run(self, graph: Graph, rw: Rewriter) -> None:
        for node in graph.nodes_of(barrier):
            rw.replace(
                node, node.inputs[0], rule="eliminate-barrier",
                why="what it kept apart is in kernels of its own now",
            )  # fmt: skip
