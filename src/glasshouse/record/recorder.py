"""How the compiler's graphs become rows: a stage costs what changed, not a copy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence

from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.ir.printer import attributes, label_of
from glasshouse.ir.rewriter import Reject, Rewrite
from glasshouse.record.reader import Recording
from glasshouse.record.schema import NEVER, RejectRow, RewriteRow
from glasshouse.record.titles import local_title, scopes_of
from glasshouse.record.writer import GraphWriter, RecordingBuilder

_KIND = {
    "matmul": "matmul", "attention": "matmul", "conv": "conv", "norm": "norm", "quant": "quant",
    "shape": "shape", "index": "move", "create": "source", "source": "source", "random": "source",
}  # fmt: skip
_KIND_OF_KIND = {
    Kind.SOURCE: "source", Kind.ELEMENTWISE: "elementwise", Kind.INJECTIVE: "move",
    Kind.REDUCTION: "reduction", Kind.CONTRACTION: "matmul", Kind.OPAQUE: "opaque",
}  # fmt: skip
_HIDDEN = frozenset({"body", "label", "types", "data", "dtype", "shape", "name"})
_MAX_SOURCE = 1 << 20
"""Bytes of a source file that is kept; longer ones are generated."""


def kind_of(node: Node) -> str:
    """The family by which the viewer colours a node; a fused node has that of its anchor."""
    body = node.attrs.get("body")
    if node.op.name == "fused" and isinstance(body, Graph):
        heavy = [n for n in body.nodes if n.op.kind in (Kind.CONTRACTION, Kind.REDUCTION)]
        inner = heavy or [n for n in body.nodes if n.op.kind is not Kind.SOURCE]
        return kind_of(inner[0]) if inner else "opaque"
    if node.op.family == "shape" and node.op.traits.view not in ("whole", "repeat"):
        return "move"
    return _KIND.get(node.op.family) or _KIND_OF_KIND[node.op.kind]


class Recorder:
    """Follows one graph through its stages and writes what happens into a recording."""

    def __init__(self, title: str = "", sources: bool = True) -> None:
        self.builder = RecordingBuilder(title)
        self.sources = sources
        self.graph: GraphWriter | None = None
        self._inputs: dict[int, tuple[tuple[int, int], ...]] = {}  # alive nodes and what they read
        self._changed: dict[int, None] = {}
        self._files: dict[str, None] = {}

    # ---------------------------------------------------------------------------------- stages
    def begin(self, graph: Graph, name: str = "traced") -> None:
        """Stage 0: the graph as it is now."""
        self.graph = self.builder.graph(graph.name or "model")
        self.graph.stage(name)
        self._inputs = {}
        for node in graph.nodes:
            self._add(self.graph, node)
        self._set_io(graph)

    def open_stage(
        self, name: str, *, doc: str = "", options: Mapping[str, str] | None = None
    ) -> int:
        """What is recorded from now on happens in a new stage, until `close_stage`."""
        self._changed = {}
        return self._owner().stage(name, pass_name=name, doc=doc, options=options)

    def close_stage(self, graph: Graph, seconds: float = 0.0) -> None:
        """Write the nodes that changed since the stage was opened."""
        owner = self._owner()
        for id in self._changed:
            self._refresh(owner, graph, id)
        if len(self._inputs) != len(graph):  # something changed the graph without telling
            for id in [*self._inputs, *(n.id for n in graph.nodes)]:
                self._refresh(owner, graph, id)
        owner.set_seconds(seconds)
        self._set_io(graph)

    def rewritten(self, step: Rewrite) -> None:
        owner = self._owner()
        self._changed.update(dict.fromkeys((*step.before, *step.after, *step.redirected)))
        owner.add(
            RewriteRow(
                owner.current_stage(), step.pass_name, step.rule, step.why,
                list(step.before), list(step.after), step.seconds,
            )
        )  # fmt: skip

    def rejected(self, step: Reject) -> None:
        owner = self._owner()
        numbers = json.dumps(dict(step.numbers)) if step.numbers else ""
        owner.add(
            RejectRow(
                owner.current_stage(), step.pass_name, step.rule, step.why, list(step.nodes),
                numbers,
            )
        )  # fmt: skip

    def finish(self) -> Recording:
        """The recording as it stands."""
        if self.sources:
            for path in self._files:
                self._keep_source(path)
            self._files = {}
        return self.builder.finish()

    # ----------------------------------------------------------------------------------- nodes
    def _owner(self) -> GraphWriter:
        assert self.graph is not None, "Recorder.begin comes first"
        return self.graph

    def _refresh(self, owner: GraphWriter, graph: Graph, id: int) -> None:
        node = graph.find(id)
        if node is None:
            if self._inputs.pop(id, None) is not None:
                owner.end(id)
        elif self._inputs.get(id) != _reads(node):
            self._add(owner, node)

    def _add(self, owner: GraphWriter, node: Node) -> None:
        if owner is self.graph:
            self._inputs[node.id] = _reads(node)
        origin = node.origin
        frame = origin.source.frames[-1] if origin.source.frames else None
        if frame is not None:
            self._files[frame.file] = None
        owner.node(
            label_of(node),
            id=node.id,
            name=_name(node),
            kind=kind_of(node),
            inputs=_reads(node),
            outputs=[str(v.type) for v in node.outputs],
            attrs=_attributes(node),
            groups=_groups(owner, node),
            file=frame.file if frame else "",
            line=frame.line if frame else 0,
            pass_name=origin.pass_name,
            rule=origin.rule,
            replaces=origin.replaces,
            grad_of=NEVER if origin.grad_of is None else origin.grad_of,
            bodies=self._bodies(owner, node),
            input_names=[n.strip("?") for n in node.op.inputs if not n.startswith("*")][
                : len(node.inputs)
            ],
            frames=[f"{f.file}:{f.line} {f.function}".rstrip() for f in origin.source.frames],
        )

    def _bodies(self, owner: GraphWriter, node: Node) -> list[int]:
        """Graphs inside a node, each as a graph of the recording."""
        out = []
        for key, value in node.attrs.items():
            if isinstance(value, Graph):
                inner = self.builder.graph(f"%{node.id} {key}", parent=owner.index)
                inner.stage("body")
                for part in value.nodes:
                    self._add(inner, part)
                inner.set_io(
                    [v.node.id for v in value.inputs],
                    [(v.node.id, v.index) for v in value.outputs],
                )
                out.append(inner.index)
        return out

    def _set_io(self, graph: Graph) -> None:
        self._owner().set_io(
            [v.node.id for v in graph.inputs], [(v.node.id, v.index) for v in graph.outputs]
        )

    def _keep_source(self, path: str) -> None:
        try:
            if path.endswith(".py") and os.path.getsize(path) <= _MAX_SOURCE:
                with open(path, encoding="utf-8") as file:
                    self.builder.source(path, file.read())
        except (OSError, UnicodeDecodeError):
            pass  # a notebook cell, or a file that has gone: the line number still says where


def _reads(node: Node) -> tuple[tuple[int, int], ...]:
    return tuple([(v.node.id, v.index) for v in node.inputs])


def _attributes(node: Node) -> Iterable[tuple[str, str]]:
    given = node.attrs
    out = [
        (k, given[k] if isinstance(given[k], str) else text)
        for k, text in attributes(node).items()
        if k not in _HIDDEN
    ]
    if node.op.kind is not Kind.SOURCE and "shape" in node.attrs:
        out.append(("shape", str(list(node.attrs["shape"]))))
    if node.op.kind is not Kind.SOURCE and "dtype" in node.attrs:
        out.append(("dtype", str(node.attrs["dtype"])))
    return out


def _name(node: Node) -> str:
    """The name it was given; kernels and what was merged of several modules have titles."""
    if node.op.name == "fused" or (node.origin.spans and node.op.kind is Kind.CONTRACTION):
        return local_title(node)
    return str(node.attrs.get("name") or node.origin.name)


def _groups(owner: GraphWriter, node: Node) -> Sequence[int]:
    scopes = [s for s in scopes_of(node) if s.name]
    groups = []
    if scopes:
        names, classes = [s.name for s in scopes], [s.cls for s in scopes]
        groups.append(owner.group_path("module", names, classes))
    groups += [owner.group_path(grouping, [group]) for grouping, group in node.origin.labels]
    return groups
