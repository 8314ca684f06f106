"""What is computed while compiling: everything that depends on constants alone.

Folding must not blow up memory: a node whose result takes more than `max_growth` bytes beyond the
constants that it makes superfluous stays, with the reason recorded (`expand` of one number to a
gigabyte, a large `arange`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glasshouse.errors import GlasshouseError
from glasshouse.ir.dtype import from_storage
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ir.sources import CONSTANT
from glasshouse.numpy_ref import run_node
from glasshouse.ops.cost import nbytes
from glasshouse.passes.base import Pass, register_pass
from glasshouse.passes.patterns import Array
from glasshouse.passes.quantized import stays_bytes


@register_pass()
@dataclass(frozen=True)
class FoldConstant(Pass):
    """Compute what depends on constants alone, once, while compiling."""

    max_growth: int = 1 << 20

    def run(self, graph: Graph, rw: Rewriter) -> None:
        for node in graph.nodes:
            if is_foldable(node):
                fold(node, rw, self.max_growth)


def is_foldable(node: Node) -> bool:
    """Whether all operands are constants that are at hand and the op may run now."""
    if node.op.kind is Kind.SOURCE or not node.op.traits.folds or stays_bytes(node):
        return False
    for value in node.inputs:
        if value.node.op is not CONSTANT or value.node.attrs["data"] is None:
            return False
    return all(v.type.is_static for v in node.outputs)


def fold(node: Node, rw: Rewriter, max_growth: int) -> bool:
    """Replace a foldable node by its value; False when it would take too much memory."""
    made = sum(nbytes(v) for v in node.outputs)
    # Only this node reads them; `uses` would count thousands for a number that everything reads.
    alone = [v for v in dict.fromkeys(node.inputs) if len(v._uses) == 1]
    freed = sum(nbytes(v) for v in alone if not rw.graph.is_held(v))
    if made - freed > max_growth:
        if rw.listeners:
            rw.reject(
                [node], rule="fold", bytes=made, freed=freed, limit=max_growth,
                why=f"{node.op.label} would store {made} bytes and free {freed}: more than the "
                f"limit of {max_growth}",
            )  # fmt: skip
        return False
    operands = [from_storage(np.asarray(v.node.attrs["data"]), v.type.dtype) for v in node.inputs]
    try:
        results = run_node(node, operands)
    except (
        GlasshouseError
    ) as error:  # the mistake is the model's: it shows when it runs, if it does
        rw.reject([node], rule="fold", why=f"computing it failed: {error.message}")
        return False
    owned = [a if _is_kept(a, operands) else np.array(a) for a in results]
    return rw.replace(
        node,
        lambda: [rw.constant(a, v.type.dtype) for a, v in zip(owned, node.outputs, strict=True)],
        rule="fold",
        why=f"{node.op.label} of constants",
    )


def _is_kept(made: Array, operands: Sequence[Array]) -> bool:
    """Whether a result is held as it is: a view would keep all that it looks into alive, unless it
    is all of it (weights that are reshaped are not held twice)."""
    whole = any(made.nbytes == x.nbytes and np.may_share_memory(made, x) for x in operands)
    return bool(made.flags.c_contiguous) and (bool(made.flags.owndata) or whole)
