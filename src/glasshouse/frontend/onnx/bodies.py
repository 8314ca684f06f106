"""Decides what a body of If, Loop or Scan reads from outside, and how it becomes a graph."""

from __future__ import annotations

from typing import Any

_GRAPH, _GRAPHS = 5, 10


def bodies_of(node: Any) -> list[Any]:
    """The graphs in a node's attributes."""
    out: list[Any] = []
    for attribute in node.attribute:
        if attribute.type == _GRAPH:
            out.append(attribute.g)
        elif attribute.type == _GRAPHS:
            out += attribute.graphs
    return out


def free_names(node: Any) -> list[str]:
    """Names that the bodies of a node read and do not make, each once, in order."""
    out: dict[str, None] = {}
    for body in bodies_of(node):
        out.update(dict.fromkeys(free_in(body)))
    return list(out)


def free_in(graph: Any) -> list[str]:
    """Names that a graph (with the bodies in it) reads and does not make."""
    made = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    made |= {s.values.name for s in graph.sparse_initializer}
    out: dict[str, None] = {}
    for node in graph.node:
        for name in (*node.input, *free_names(node)):
            if name and name not in made:
                out[name] = None
        made |= set(node.output)
    for info in graph.output:
        if info.name and info.name not in made:
            out[info.name] = None
    return list(out)
