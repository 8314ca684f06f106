"""Turns sorts of which few elements are read (a median, the k-th value, quantiles) into selections
of these.

A selection reads a line three times; a sort by digits reads and writes all of it with its places
six times (10,000 floats: 61 us, the median alone 20).
"""

from __future__ import annotations

from functools import partial

from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.target import Target
from glasshouse.ops.create import arange_near
from glasshouse.ops.shape import expanded
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.subgraph_rewrite.rules.split_concat import steps_of

MOST_RANKS = 2
"""Ranks of a line: each is a further pass over it, and six take longer than the sort."""

SHORTEST = 64
"""Elements of a line: fewer are sorted as quickly."""


def select_ranks(graph: Graph, rw: Rewriter, target: Target) -> None:
    """Rewrite sorts where a target selects."""
    if "nth" not in target.tiles:
        return
    for node in [n for n in graph.nodes if n.op.name == "sort"]:
        read = _ranks_read(graph, node)
        if read is None:
            continue
        for user in read:
            rw.replace(
                user,
                partial(_selected, user, node, rw),
                rule="select-ranks",
                why=f"of the sorted lines at most {MOST_RANKS} elements each are read",
            )


def _ranks_read(graph: Graph, node: Node) -> list[Node] | None:
    """The nodes that read a sort's results, each at few ranks; None if others do as well."""
    x = node.inputs[0].type
    axis = axis_of(node.attrs["axis"], x.rank) if x.rank else 0
    size = x.shape[axis] if x.rank else 1
    users = list(node.users)
    if not isinstance(size, int) or size < SHORTEST or not users:
        return None
    if any(v in graph.outputs for v in node.outputs):
        return None
    ranks: dict[object, int] = {}
    for user in users:
        count = user.outputs[0].type.shape[axis] if user.outputs[0].type.rank == x.rank else None
        if not isinstance(count, int) or not _reads_lines(user, node, axis):
            return None
        by = user.inputs[1] if user.op.name == "gather" else (*user.attrs["starts"],)
        ranks[by] = count
    return users if 0 < sum(ranks.values()) <= MOST_RANKS else None


def _reads_lines(user: Node, node: Node, axis: int) -> bool:
    """Whether a node reads elements of each line by their ranks."""
    shape = node.inputs[0].type.shape
    found = user.outputs[0].type.shape
    if any(a != b for i, (a, b) in enumerate(zip(shape, found, strict=True)) if i != axis):
        return False
    if user.op.name == "gather":
        given, by = user.inputs
        along = axis_of(user.attrs["axis"], len(shape))
        return given in node.outputs and by not in node.outputs and along == axis
    return user.op.name == "slice" and all(step == 1 for step in steps_of(user))


def _selected(user: Node, node: Node, rw: Rewriter) -> Expr:
    x = rw.expr(node.inputs[0])
    axis = axis_of(node.attrs["axis"], x.ndim)
    if user.op.name == "gather":
        ranks = rw.expr(user.inputs[1])
    else:
        shape = user.output.type.shape
        column = tuple(shape[axis] if i == axis else 1 for i in range(x.ndim))
        each = arange_near(x, shape[axis]) + user.attrs["starts"][axis]
        ranks = expanded(each.apply("reshape", shape=column), shape)
    found = x.apply("nth", ranks, axis=axis, descending=node.attrs["descending"])
    out: Expr = found[user.inputs[0].index]
    return out
