"""When a layer norm between products needs no kernel: the product before it leaves statistics of
its rows, and products behind it take the rows as they were.

With scale g and shift b, norm(r) @ W = (r @ (g W) - mean * sum(g W)) * factor + b @ W, where mean
and factor are numbers of a row. So r is multiplied as it lies, by weights with the scale in them,
and what is known of its rows is applied to the sums; a residual that is a norm is made where it is
added. Weights are held twice where PyTorch's are lent; for few rows that is less than what the
kernels and the gaps around them cost. Rows are stored as before, so a row whose mean is far from
its deviation loses what it lost then. Means are taken from sums of float32 instead of elements: a
row that is one number c throughout has its shift up to about 3e-4 c (eps is 1e-5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glasshouse.ir.dim import product
from glasshouse.ir.dtype import float16, float32
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.target import Target
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.patterns import is_constant, made_by, only_user
from glasshouse.passes.subgraph_rewrite.merge_products import suits
from glasshouse.passes.subgraph_rewrite.scaled_weights import largest, plain, scaled

_ROWS, _WIDTH, _MOST_WIDTH = 64, 256, 1024
"""What divides the rows and their length where there is a kernel; its most."""
_RANGE = 2.0**-6, 2.0**6
"""The largest scale of a norm that goes into weights of float16: of larger ones the product might
not fit, and if all are smaller too little of it is left."""
_LARGEST = 65504.0


@dataclass(frozen=True)
class _Sum:
    """A residual and a product with its bias, which a layer norm alone reads."""

    node: Node
    linear: Node
    bias: Value
    residual: Value
    norm: Node
    between: Node  # the sum of product and bias


def norms_in_products(graph: Graph, rw: Rewriter, target: Target) -> None:
    """Rewrite where a target has kernels for it."""
    if not target.normed_rows:
        return
    sums = {n: s for n in graph.nodes if (s := _sum_of(graph, n, target)) is not None}
    norms = {s.norm: s for s in sums.values()}
    gone = {norm for norm, s in norms.items() if _needs_no_kernel(graph, s, sums, target)}
    _keep_shared(gone)
    for s in sums.values():
        before = s.residual.node if s.residual.node in gone else None
        if s.norm in gone or before is not None:
            _leave_parts(s, before, rw)
    for norm in [n for n in norms if n in gone]:
        for user in _products(norm):
            _take_rows(norm, user, rw)


def _products(norm: Node) -> list[Node]:
    return [u for u in norm.output.users if u.op.name == "matmul"]


def _keep_shared(gone: set[Node]) -> None:
    """Leave out norms whose constants others read as well: those that are folded must be gone, or
    they could be set, and a part of the model would have the old ones."""
    while True:
        taken = gone | {u for norm in gone for u in _products(norm)}
        kept = {
            norm
            for norm in gone
            for value in (*norm.inputs[1:], *(u.inputs[1] for u in _products(norm)))
            if any(u not in taken for u in value.users)
        }
        if not kept:
            return
        gone -= kept


def _sum_of(graph: Graph, node: Node, target: Target) -> _Sum | None:
    if node.op.name != "add":
        return None
    norm = only_user(graph, node.output)
    if norm is None or norm.op.name != "layer_norm" or norm.inputs[0] is not node.output:
        return None
    for residual, made in (node.inputs, node.inputs[::-1]):
        between = made_by(made, "add")
        if between is None or residual.type != node.output.type or made.type != residual.type:
            continue
        if only_user(graph, made) is not node:
            continue
        for product_, bias in (between.inputs, between.inputs[::-1]):
            linear = made_by(product_, "matmul")
            if linear is None or only_user(graph, product_) is not between:
                continue
            along = node.output.type.shape[-1:]
            if is_constant(bias) and bias.type.shape == along and _suits(linear, target):
                return _Sum(node, linear, bias, residual, norm, between)
    return None


def _suits(linear: Node, target: Target) -> bool:
    if not suits(linear, target):
        return False
    rows = product(linear.output.type.shape[:-1])
    few = isinstance(rows, int) and rows % _ROWS == 0 and 0 < rows <= target.normed_rows
    return few and linear.output.type.dtype is linear.inputs[0].type.dtype


def _needs_no_kernel(graph: Graph, s: _Sum, sums: dict[Node, _Sum], target: Target) -> bool:
    """Whether all that reads a norm takes its rows as they were before."""
    norm, rows = s.norm, s.node.output.type
    wide = rows.shape[-1]
    if len(norm.inputs) != 3 or axis_of(norm.attrs["axis"], rows.rank) != rows.rank - 1:
        return False
    if not isinstance(wide, int) or wide % _WIDTH or wide > _MOST_WIDTH:
        return False
    if graph.is_held(norm.output) or any(v.type.dtype is not rows.dtype for v in norm.inputs):
        return False
    if not all(is_constant(v) for v in norm.inputs[1:]):
        return False
    users = list(norm.output.users)
    products = [u for u in users if _takes_rows(u, norm, target)]
    adds = [u for u in users if u in sums and sums[u].residual is norm.output]
    return bool(products) and len(products) + len(adds) == len(users)


def _takes_rows(user: Node, norm: Node, target: Target) -> bool:
    if user.op.name != "matmul" or user.inputs[0] is not norm.output or not _suits(user, target):
        return False
    weight, scale = largest(user.inputs[1]), largest(norm.inputs[1])  # NaN goes through
    if norm.output.type.dtype is not float16:
        return bool(np.isfinite(np.float32(weight * scale)))
    return _RANGE[0] <= scale <= _RANGE[1] and weight * scale <= _LARGEST


def _leave_parts(s: _Sum, before: Node | None, rw: Rewriter) -> None:
    """The sum as a product that leaves parts; `before`: the norm that its residual is."""
    if before is not None and not _left(before.inputs[0]):  # a step that was vetoed
        before = None
    x, weight = s.linear.inputs

    def built() -> Expr:
        operands, eps = [weight, s.bias, s.residual], 1e-5
        if before is not None:
            rows, eps = before.inputs[0], before.attrs["eps"]
            copies = [rw.constant(plain(v), v.type.dtype) for v in before.inputs[1:]]
            operands = [weight, s.bias, rows, rows.node.outputs[1], *copies]
        made = rw.expr(x).apply("product_and_parts", *map(rw.expr, operands), eps=eps)
        rows_made: Expr = made[0]
        return rows_made

    rw.replace(
        s.node,
        built,
        rule="leave-parts",
        why=f"few rows: {s.linear.op.label} has columns of a row in its registers, so it leaves "
        "sums and squares of them for the norm behind it"
        + ("" if before is None else ", and makes the norm that is added of what was left so"),
        matched=[s.linear, s.between, s.norm, *([before] if before is not None else [])],
    )


def _left(rows: Value) -> bool:
    return rows.node.op.name == "product_and_parts"


def _take_rows(norm: Node, user: Node, rw: Rewriter) -> None:
    rows = norm.inputs[0]
    if not _left(rows):
        return
    parts = rows.node.outputs[1]

    def built() -> Expr:
        data, columns = scaled(user.inputs[1], *norm.inputs[1:])
        operands = parts, rw.stored(data, rows.type.dtype), rw.constant(columns, float32)
        made: Expr = rw.expr(rows).apply(
            "normed_product", *map(rw.expr, operands), eps=norm.attrs["eps"]
        )
        return made

    rw.replace(
        user,
        built,
        rule="norm-behind-product",
        why=f"what {norm.op.label} does to a row are two numbers, of what the product before left: "
        "they are applied to sums, its scale is in the weights, and it needs no kernel",
        matched=[norm],
    )
