"""What a body of If, Loop or Scan reads from outside, and how it becomes a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.item import Item, of_handle
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.graph import Graph
from glasshouse.ir.types import TensorType
from glasshouse.ir.verify import verify

if TYPE_CHECKING:
    from glasshouse.frontend.onnx.importer import Env, OnnxImporter

_GRAPH, _GRAPHS = 5, 10  # kinds of attributes


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


def inlined(importer: OnnxImporter, graph: Any) -> list[Any]:
    """What a body gives when it is known to run exactly once: its nodes join the outer graph."""
    inner = importer.inner(dict(importer.env))
    inner.declare(graph)
    inner.initializers(graph)
    inner.run(graph.node)
    return inner.results([info.name for info in graph.output])


class OuterValues:
    """The values from outside that bodies read: known ones are made again inside, others become
    further operands of the node."""

    def __init__(self, importer: OnnxImporter, graphs: Sequence[Any]) -> None:
        self.importer = importer
        self.known: dict[str, Item] = {}
        self.operands: dict[str, Item] = {}
        for name in dict.fromkeys(n for g in graphs for n in free_in(g)):
            item = importer.lookup(name)
            if not isinstance(item, Item):
                raise Unsupported(f"a body that reads the sequence {name!r}")
            (self.known if item.value is not None else self.operands)[name] = item

    @property
    def handles(self) -> list[Any]:
        return [item.handle for item in self.operands.values()]

    @property
    def types(self) -> list[TensorType]:
        return [item.type for item in self.operands.values()]

    def body(self, graph: Any, types: Sequence[TensorType], wrap: Any = None) -> Graph:
        """The graph of a body whose own inputs have these types.

        `wrap(builder, run, own, captured)` says what the finished graph's outputs are; `run` takes
        handles for the body's own inputs and gives its outputs.
        """
        builder = GraphBuilder(graph.name)
        own = [builder.input(t.dtype, t.shape) for t in types]
        outside = zip(self.operands, self.types, strict=True)
        captured = [builder.input(t.dtype, t.shape, name) for name, t in outside]

        def run(handles: Sequence[Any]) -> list[Any]:
            env: Env = {name: item.into(builder) for name, item in self.known.items()}
            env |= {n: of_handle(h) for n, h in zip(self.operands, captured, strict=True)}
            env |= {i.name: of_handle(h) for i, h in zip(graph.input, handles, strict=True)}
            inner = self.importer.inner(env, builder=builder)
            inner.declare(graph)
            inner.initializers(graph)
            inner.run(graph.node)
            found = inner.results([info.name for info in graph.output])
            if not all(isinstance(f, Item) for f in found):
                raise Unsupported("a body that gives a sequence")
            return [f.handle for f in found]

        outputs = run(own) if wrap is None else wrap(builder, run, own, captured)
        finished = builder.finish(*outputs)
        prune(finished)
        verify(finished, f"importing the body {graph.name}")
        return finished


def prune(graph: Graph) -> None:
    """Without the nodes that no output needs: shape arithmetic that was done during import."""
    needed = {v.node for v in graph.inputs}
    pending = [v.node for v in graph.outputs]
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += [v.node for v in node.inputs]
    for node in reversed(graph.nodes):
        if node not in needed:
            graph._remove(node)
