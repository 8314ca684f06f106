"""Computes ops of half floats in float32 where a target has vectors for that alone: casts around
them are fused with their neighbours."""

from __future__ import annotations

from glasshouse.ir.dtype import bfloat16, float16, float32
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.target import Target

HALVES = (float16, bfloat16)


def in_float32(graph: Graph, rw: Rewriter, target: Target) -> None:
    """Widen the operands of the target's `widened` ops, and round their results."""
    for node in [n for n in graph.nodes if n.op.name in target.widened]:
        if node.output.type.dtype in HALVES:
            rw.replace(
                node,
                lambda node=node: _widened(node, rw),  # type: ignore[misc]  # bound now
                rule="in-float32",
                why=f"on {target.name} {node.op.label} of half floats has no vectors, and of "
                "float32 it has; both add up in float32",
            )


def _widened(node: Node, rw: Rewriter) -> Expr:
    first, *others = (rw.expr(v).cast(float32) for v in node.inputs)
    made: Expr = first.apply(node.op.name, *others, **node.attrs).cast(node.output.type.dtype)
    return made
