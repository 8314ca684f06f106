"""What is computed while compiling: everything that depends on constants alone.

Folding must not blow up memory: a node whose result takes more than `max_growth` bytes beyond the
constants that it makes superfluous stays, with the reason recorded (`expand` of one number to a
gigabyte, a large `arange`). What is computed from such a node may be small again (the norms of a
product of weights, an attention's bias from distances between places): that is computed with all
that leads to it, of which nothing stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glasshouse.errors import GlasshouseError
from glasshouse.ir.dtype import from_storage
from glasshouse.ir.graph import Graph, Node, Value
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
    max_passing: int = 1 << 26
    """Bytes that may be computed on the way to one result, and forgotten."""

    def run(self, graph: Graph, rw: Rewriter) -> None:
        passing = Passing(self.max_passing)
        for node in graph.nodes:
            if is_foldable(node):
                if not fold(node, rw, self.max_growth) and _made(node) > self.max_growth:
                    passing.add(node)
            elif passing.leads_to(node) and not (
                _made(node) <= self.max_growth and passing.fold(node, rw)
            ):
                passing.add(node)


class Passing:
    """Nodes that depend on constants alone and whose results are too large to stay."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[Node, tuple[int, int]] = {}  # its number; bytes with all that it needs
        self._values: dict[Value, Array] = {}  # of those that ran: many may need the same ones

    def leads_to(self, node: Node) -> bool:
        """Whether a node may run now, and depends on these and on constants that are at hand."""
        return (
            any(v.node in self._known for v in node.inputs)
            and all(v.node in self._known or _is_at_hand(v) for v in node.inputs)
            and _may_run(node)
        )

    def add(self, node: Node) -> None:
        before = dict.fromkeys(v.node for v in node.inputs if v.node in self._known)
        whole = _made(node) + sum(self._known[n][1] for n in before)
        if whole <= self._limit:
            self._known[node] = len(self._known), whole

    def fold(self, node: Node, rw: Rewriter) -> bool:
        """Replace a node by its value, after all on the way to it have run."""
        if sum(a.nbytes for a in self._values.values()) > self._limit:
            self._values.clear()
        way: set[Node] = set()
        open_ = [node]
        while open_:
            for value in open_.pop().inputs:
                if not (
                    value in self._values or value.node in way or value.node not in self._known
                ):
                    way.add(value.node)
                    open_.append(value.node)
        return _fold(node, self._values, sorted(way, key=lambda n: self._known[n][0]), rw)


def is_foldable(node: Node) -> bool:
    """Whether all operands are constants that are at hand and the op may run now."""
    return _may_run(node) and all(_is_at_hand(v) for v in node.inputs)


def _may_run(node: Node) -> bool:
    if node.op.kind is Kind.SOURCE or not node.op.traits.folds or stays_bytes(node):
        return False
    return all(v.type.is_static for v in node.outputs)


def _is_at_hand(value: Value) -> bool:
    return value.node.op is CONSTANT and value.node.attrs["data"] is not None


def _made(node: Node) -> int:
    return sum(nbytes(v) for v in node.outputs)


def fold(node: Node, rw: Rewriter, max_growth: int) -> bool:
    """Replace a foldable node by its value; False when it would take too much memory."""
    made = _made(node)
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
    return _fold(node, {}, [], rw)


def _fold(node: Node, values: dict[Value, Array], way: Sequence[Node], rw: Rewriter) -> bool:
    """Replace a node by its value; nodes on the way to it run first, and `values` takes theirs."""
    try:
        for each in way:
            values.update(zip(each.outputs, run_node(each, _operands(each, values)), strict=True))
        operands = _operands(node, values)
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


def _operands(node: Node, values: Mapping[Value, Array]) -> list[Array]:
    return [
        values[v] if v in values else from_storage(np.asarray(v.node.attrs["data"]), v.type.dtype)
        for v in node.inputs
    ]


def _is_kept(made: Array, operands: Sequence[Array]) -> bool:
    """Whether a result is held as it is: a view would keep all that it looks into alive, unless it
    is all of it (weights that are reshaped are not held twice)."""
    whole = any(made.nbytes == x.nbytes and np.may_share_memory(made, x) for x in operands)
    return bool(made.flags.c_contiguous) and (bool(made.flags.owndata) or whole)
