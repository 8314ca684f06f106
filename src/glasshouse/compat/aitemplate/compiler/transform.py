"""`aitemplate.compiler.transform`: sort, name, mark and optimise a graph."""

from __future__ import annotations

import os
from collections.abc import Sequence

import glasshouse as gh
from glasshouse.compat.aitemplate.sorted_graph import SortedGraph, graph_of
from glasshouse.compat.missing import names_what_is_there
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import CONSTANT
from glasshouse.passes.mark_views import find_views


def toposort(nodes: gh.Tensor | Sequence[gh.Tensor]) -> SortedGraph:
    """The graph that computes the outputs given."""
    outputs = [nodes] if isinstance(nodes, gh.Tensor) else list(nodes)
    return SortedGraph(graph_of(outputs))


def name_graph(sorted_graph: SortedGraph) -> None:
    """Give a name to every tensor that has none: the op, its number, and the output's."""
    for tensor in sorted_graph:
        if not tensor._attrs["name"]:
            node = tensor.value.node
            kind = "constant" if node.op.kind is Kind.SOURCE else node.op.name
            tensor._attrs["name"] = f"{kind}_{node.id}_{tensor.value.index}"


def mark_param_tensor(sorted_graph: SortedGraph) -> None:
    """Mark the constants."""
    for tensor in sorted_graph:
        if tensor.value.node.op is CONSTANT:
            tensor._attrs["is_param"] = True


def mark_special_views(sorted_graph: SortedGraph) -> None:
    """Note which tensors lie in the memory of others."""
    for value, view in find_views(sorted_graph.graph).views.items():
        tensor = sorted_graph.by_value[value]
        tensor._attrs["is_view_of"] = sorted_graph.by_value[view.base]


def optimize_graph(
    sorted_graph: SortedGraph, workdir: str | os.PathLike[str], optimize: bool = True
) -> SortedGraph:
    """The optimised graph; the graphs between are written to `workdir`."""
    if not optimize:
        return sorted_graph
    ctx = gh.PassContext.current() or gh.PassContext()
    ctx.save_graph_instrument(workdir)
    try:
        return SortedGraph(gh.optimize(sorted_graph.graph, ctx))
    finally:
        ctx.instruments.pop()


__all__ = [
    "mark_param_tensor", "mark_special_views", "name_graph", "optimize_graph", "toposort",
]  # fmt: skip
__getattr__ = names_what_is_there("aitemplate.compiler.transform", __all__)
