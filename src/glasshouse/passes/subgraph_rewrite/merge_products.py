"""Merges matrix products of one value into one kernel that reads each weight in place: gate and up
of a gated MLP, and, for few rows, the RMS norm before them.

Queries, keys and values are merged by `merge_siblings`, which asks `suits` here whether it may
leave the weights where they lie.
"""

from __future__ import annotations

from glasshouse.ir.dim import bounds, product
from glasshouse.ir.dtype import bfloat16, float16
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.target import Target
from glasshouse.ops.products import GATES
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.patterns import is_constant, made_by, only_user

FEW = 8
"""Rows for which each block computes the norm again: they are read by all anyway."""
_COLUMNS, _DEPTH = 64, 8
"""What divides the sizes of a weight: columns of a tile lie in one weight, and rows are aligned."""


def merge_products(graph: Graph, rw: Rewriter, target: Target) -> None:
    """Rewrite where a target has kernels for it."""
    if not target.joined_rows:
        return
    for node in [n for n in graph.nodes if n.op.name == "multiply"]:
        _gated(graph, node, rw, target)
    for node in [n for n in graph.nodes if n.op.name in ("matmul", "products")]:
        _normed(graph, node, rw, target)


def suits(node: Node, target: Target) -> bool:
    """Whether a product may be one of several whose weights stay where they lie."""
    if node.op.name != "matmul" or node.attrs["transpose_x"] or not node.attrs["transpose_y"]:
        return False
    x, weight = node.inputs
    if x.type.dtype not in (float16, bfloat16) or x.type.rank < 2 or not is_constant(weight):
        return False
    if weight.type.dtype is not x.type.dtype or weight.type.rank != 2:
        return False
    columns, depth = weight.type.shape
    if not isinstance(columns, int) or not isinstance(depth, int) or not columns or not depth:
        return False
    return not columns % _COLUMNS and not depth % _DEPTH and _rows(node) <= target.joined_rows


def _rows(node: Node) -> float:
    return bounds(product(node.inputs[0].type.shape[:-1]))[1]


def _gated(graph: Graph, node: Node, rw: Rewriter, target: Target) -> None:
    for gate, passed in (node.inputs, node.inputs[::-1]):
        name = next((k for k, v in GATES.items() if (gate.node.op.name, gate.node.attrs) == v), "")
        if not name or passed.type != gate.type:
            continue
        first, second = made_by(gate.node.inputs[0], "matmul"), made_by(passed, "matmul")
        if first is None or second is None or first.inputs[0] is not second.inputs[0]:
            continue
        matched = [gate.node, first, second]
        if not all(suits(n, target) and n.output.type == node.output.type for n in matched[1:]):
            continue
        if any(only_user(graph, n.output) is None for n in matched):
            continue
        x, (w, v) = first.inputs[0], (first.inputs[1], second.inputs[1])
        rw.replace(
            node,
            lambda x=x, w=w, v=v, name=name: rw.expr(x).apply(  # type: ignore[misc]  # bound now
                "products", rw.expr(w), rw.expr(v), gate=name
            ),
            rule="merge-gate",
            why="a gate and what it lets through are products of one value: one kernel has both "
            "sums of an element, and reads both weights where they lie",
            matched=matched,
        )
        return


def _normed(graph: Graph, node: Node, rw: Rewriter, target: Target) -> None:
    norm = made_by(node.inputs[0], "rms_norm")
    if norm is None or only_user(graph, norm.output) is not node or len(norm.inputs) != 2:
        return
    if node.op.name == "matmul" and not suits(node, target):
        return
    if node.op.name == "products" and node.attrs["eps"] is not None:
        return
    x, scale = norm.inputs
    if axis_of(norm.attrs["axis"], x.type.rank) != x.type.rank - 1 or not is_constant(scale):
        return
    if scale.type.dtype is not x.type.dtype or _rows(node) > FEW or x.type.rank < 2:
        return
    weights = node.inputs[1:]
    gate = node.attrs["gate"] if node.op.name == "products" else ""
    rw.replace(
        node,
        lambda: rw.expr(x).apply(
            "products",
            rw.expr(scale),
            *(rw.expr(w) for w in weights),
            gate=gate,
            eps=norm.attrs["eps"],
        ),
        rule="merge-norm",
        why=f"few rows: every block reads all of them, so it can add up their squares too, and the "
        f"norm before {node.op.label} needs no kernel",
        matched=[norm],
    )
