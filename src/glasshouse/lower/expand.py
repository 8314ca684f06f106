"""How ops that have no code of their own become simpler ones inside a kernel.

Softmax, the norms, mean and variance are folds and elementwise arithmetic: written so, one nest
computes them with whatever surrounds them. The new nodes keep the origin of what they stand for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import numpy as np

from glasshouse.ir.dtype import int32, int64
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.expand_norms import (
    CENTRED,
    NORMS,
    WITH_TEMPLATES,
    Expansion,
    has_even_parts,
    widened,
)
from glasshouse.lower.expand_products import PRODUCTS
from glasshouse.lower.quant import has_loops
from glasshouse.ops.shapes import axis_of


def expanded(
    graph: Graph, plain: Collection[str] = (), shifted: bool = True
) -> tuple[Graph, dict[int, int]]:
    """A copy of a kernel's body in which every op has code; and, for each node, the position among
    the ops of the body of the one that it stands for.

    Ops in `plain` have templates, and are taken apart all the same. `shifted` as in `_centre`.
    """
    table = {**EXPANSIONS, **{name: _WITH_TEMPLATES[name] for name in plain}}
    members = (n for n in graph.nodes if n.op.kind is not Kind.SOURCE)
    stands_for = {n.id: i for i, n in enumerate(members)}
    pending = [n for n in graph.nodes if _needs_it(n, table)]
    if not pending:
        return graph, stands_for
    out = graph.copy()
    rw = Rewriter(out, "Lower")
    pending = [out.node(n.id) for n in pending]
    while pending:
        for node in pending:
            how = (shifted,) if node.op.name in CENTRED else ()
            build = partial(table[node.op.name], rw, node, *how)
            first = out._next_id
            rw.replace(node, build, rule=node.op.name, why="it has no code of its own")
            stands_for.update(dict.fromkeys(range(first, out._next_id), stands_for[node.id]))
        pending = [n for n in rw.touched() if _needs_it(n, table)]
    return out, stands_for


def _needs_it(node: Node, table: Mapping[str, Expansion]) -> bool:
    if node.op.name in ("quantize", "dequantize") and has_loops(node):
        return False
    if node.op.name == "adaptive_avg_pool":
        return has_even_parts(node)
    return node.op.name in table


def _beside(like: Any, vector: Any, axis: int | None) -> Any:
    """A scale or zero point, shaped so that it broadcasts along its axis."""
    if axis is None:
        return vector
    at = axis_of(axis, like.ndim)
    return vector.apply("reshape", shape=(vector.shape[0],) + (1,) * (like.ndim - 1 - at))


def _quantize(rw: Rewriter, node: Node) -> Any:
    x, scale, zero = (rw.expr(v) for v in node.inputs)
    axis, dtype = node.attrs["axis"], node.attrs["dtype"]
    limits = np.iinfo(dtype.carrier)
    low = limits.min if node.attrs["low"] is None else node.attrs["low"]
    high = limits.max if node.attrs["high"] is None else node.attrs["high"]
    wide = widened(scale).dtype
    steps = (widened(x).cast(wide) / _beside(x, widened(scale), axis)).apply("round")
    steps = steps.apply("isnan").apply("where", 0.0, steps)
    # As an integer only after clipping; 2**40 leaves room for every zero point.
    whole = steps.apply("clip", low=-(2.0**40), high=2.0**40).cast(int64)
    moved = whole + _beside(x, zero.cast(int64), axis)
    return moved.apply("clip", low=int(low), high=int(high)).cast(dtype)


def _dequantize(rw: Rewriter, node: Node) -> Any:
    x, scale, zero = (rw.expr(v) for v in node.inputs)
    axis = node.attrs["axis"]
    steps = x.cast(int32) - _beside(x, zero.cast(int32), axis)
    wide = widened(scale)
    return (steps.cast(wide.dtype) * _beside(x, wide, axis)).cast(node.attrs["dtype"])


_WITH_TEMPLATES = {**PRODUCTS, **WITH_TEMPLATES}
FOLDS = tuple(_WITH_TEMPLATES)
"""All that can be folds: slow, and good for every type."""
APART = tuple(name for name in FOLDS if name != "matmul")
"""What consists of products and folds: where its own template will not do, theirs may."""
EXPANSIONS = {**NORMS, "quantize": _quantize, "dequantize": _dequantize}
