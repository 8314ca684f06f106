"""`aitemplate.utils.visualization`: a graph as a page, here one that needs no network."""

from __future__ import annotations

import os
from typing import Any

import glasshouse as gh
from glasshouse.compat.aitemplate.sorted_graph import SortedGraph, graph_of
from glasshouse.compat.missing import names_what_is_there


def plot_graph(
    tensors: Any,
    file_path: str | os.PathLike[str],
    network_name: str = "",
) -> None:
    """Write the page: of a sorted graph, of what computes tensors, or of a compiled model."""
    shown: Any = tensors
    if isinstance(tensors, SortedGraph):
        shown = tensors.graph
    elif isinstance(tensors, gh.Tensor):
        shown = graph_of([tensors])
    elif isinstance(tensors, (list, tuple)) and all(isinstance(t, gh.Tensor) for t in tensors):
        shown = graph_of(tensors)
    gh.plot_graph(shown, file_path, title=network_name)


__all__ = ["plot_graph"]
__getattr__ = names_what_is_there("aitemplate.utils.visualization", __all__)
