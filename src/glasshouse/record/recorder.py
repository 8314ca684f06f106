"""How the compiler's graphs become rows: a stage costs what changed, not a copy.

While passes run, what happens is noted (`seen.py`); rows are written when somebody asks for them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO, TextIOWrapper

from glasshouse.forking import ForkLock
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.ir.origin import Scope
from glasshouse.ir.printer import attributes, label_of
from glasshouse.ir.rewriter import Reject, Rewrite
from glasshouse.record.graph_writer import GraphWriter
from glasshouse.record.reader import Recording
from glasshouse.record.schema import NEVER, RejectRow, RewriteRow
from glasshouse.record.seen import Reads, SeenNode, ends_of, reads_of
from glasshouse.record.writer import RecordingBuilder

_HIDDEN = frozenset({"body", "label", "types", "data", "dtype", "shape", "name"})
_MAX_SOURCE = 1 << 20
"""Bytes of a source file that is kept; longer ones are generated."""


class Recorder(ForkLock):
    """Follows one graph through its stages and writes what happens into a recording."""

    def __init__(self, title: str = "", sources: bool = True) -> None:
        super().__init__()
        self.sources = sources
        self._builder = RecordingBuilder(title)
        self._graph: GraphWriter | None = None
        # What is to be written, in its order; nodes into the graph that was begun last.
        self._noted: list[Callable[[], object] | SeenNode] = []
        self._writing: GraphWriter | None = None
        self._inputs: dict[int, Reads] = {}  # alive nodes and what they read
        self._changed: dict[int, None] = {}
        self._files: dict[str, None] = {}
        self._texts: dict[str, bytes] = {}  # of files, as they were when the passes ended

    @property
    def builder(self) -> RecordingBuilder:
        """What all that was noted until now is written into."""
        with self.lock:
            while self._noted:
                noted, self._noted = self._noted, []
                for note in noted:
                    if isinstance(note, SeenNode):
                        assert self._writing is not None  # begun before any node
                        self._write(self._writing, note)
                    else:
                        note()
        return self._builder

    @property
    def facts(self) -> dict[str, str]:
        """What the recording says of the whole."""
        return self._builder.facts

    @property
    def graph(self) -> GraphWriter | None:
        """The graph that is followed, with its rows."""
        return self._graph if self.builder.graphs else None

    # ---------------------------------------------------------------------------------- stages
    def begin(self, graph: Graph, name: str = "traced") -> None:
        """Stage 0: the graph as it is now."""
        self._graph = owner = self._builder.graph(graph.name or "model")
        self._noted += [partial(setattr, self, "_writing", owner), partial(owner.stage, name)]
        self._inputs = {}
        for node in graph.nodes:
            self._note(node)
        self._note_ends(graph)

    def open_stage(
        self, name: str, *, doc: str = "", options: Mapping[str, str] | None = None
    ) -> None:
        """What is recorded from now on happens in a new stage, until `close_stage`."""
        self._changed = {}
        self._noted.append(
            partial(self._owner().stage, name, pass_name=name, doc=doc, options=options)
        )

    def close_stage(self, graph: Graph, seconds: float = 0.0) -> None:
        """Note the nodes that changed since the stage was opened."""
        for id in self._changed:
            self._refresh(graph, id)
        if len(self._inputs) != len(graph):  # something changed the graph without telling
            for id in [*self._inputs, *(n.id for n in graph.nodes)]:
                self._refresh(graph, id)
        self._noted.append(partial(self._owner().set_seconds, seconds))
        self._note_ends(graph)

    def rewritten(self, step: Rewrite) -> None:
        self._changed.update(dict.fromkeys((*step.before, *step.after, *step.redirected)))
        self._noted.append(partial(_write_rewrite, self._owner(), step))

    def rejected(self, step: Reject) -> None:
        self._noted.append(partial(_write_reject, self._owner(), step))

    def read_sources(self) -> None:
        """Read the files that nodes come from: who edits them later sees what was compiled."""
        for path in self._files if self.sources else ():
            try:
                if path.endswith(".py") and os.path.getsize(path) <= _MAX_SOURCE:
                    # Python holds a text in four bytes a character where one is a picture, and
                    # most recordings are never asked for: a Llama's files took 1.3 MB.
                    with open(path, "rb") as file:
                        self._texts[path] = file.read()
            except OSError:
                pass  # a notebook cell, or a file that has gone: the line number still says where
        self._files = {}

    def finish(self) -> Recording:
        """The recording as it stands."""
        self.read_sources()
        with self.lock:
            builder = self.builder
            texts, self._texts = self._texts, {}
            for path, held in texts.items():
                with suppress(UnicodeDecodeError):
                    builder.source(path, TextIOWrapper(BytesIO(held), encoding="utf-8").read())
            return builder.finish()

    # ----------------------------------------------------------------------------------- nodes
    def _owner(self) -> GraphWriter:
        assert self._graph is not None, "Recorder.begin comes first"
        return self._graph

    def _refresh(self, graph: Graph, id: int) -> None:
        node = graph.find(id)
        if node is None:
            if self._inputs.pop(id, None) is not None:
                self._noted.append(partial(self._owner().end, id))
        elif self._inputs.get(id) != reads_of(node):
            self._note(node)

    def _note(self, node: Node) -> None:
        seen = SeenNode.of(node)
        self._inputs[node.id] = seen.reads
        self._keep_file(seen)
        self._noted.append(seen)

    def _keep_file(self, seen: SeenNode) -> None:
        frames = seen.origin.source.frames
        if frames:
            self._files[frames[-1].file] = None
        for _, body in seen.bodies:
            for part in body.nodes:
                self._keep_file(part)

    def _write(self, owner: GraphWriter, seen: SeenNode) -> None:
        node, origin = seen.twin(), seen.origin
        frame = origin.source.frames[-1] if origin.source.frames else None
        owner.node(
            label_of(node),
            id=node.id,
            name=seen.name,
            kind=seen.kind,
            inputs=seen.reads,
            outputs=[str(v.type) for v in node.outputs],
            attrs=_attributes(node),
            groups=_groups(owner, seen.scopes, origin.labels),
            file=frame.file if frame else "",
            line=frame.line if frame else 0,
            pass_name=origin.pass_name,
            rule=origin.rule,
            replaces=origin.replaces,
            grad_of=NEVER if origin.grad_of is None else origin.grad_of,
            bodies=self._write_bodies(owner, seen),
            input_names=[n.strip("?") for n in node.op.inputs if not n.startswith("*")][
                : len(seen.reads)
            ],
            frames=[f"{f.file}:{f.line} {f.function}".rstrip() for f in origin.source.frames],
        )

    def _write_bodies(self, owner: GraphWriter, seen: SeenNode) -> list[int]:
        """Graphs inside a node, each as a graph of the recording."""
        out = []
        for key, body in seen.bodies:
            inner = self._builder.graph(f"%{seen.id} {key}", parent=owner.index)
            inner.stage("body")
            for part in body.nodes:
                self._write(inner, part)
            inner.set_io(body.inputs, body.outputs)
            inner.close()
            out.append(inner.index)
        return out

    def _note_ends(self, graph: Graph) -> None:
        self._noted.append(partial(self._owner().set_io, *ends_of(graph)))


def _write_rewrite(owner: GraphWriter, step: Rewrite) -> None:
    owner.add(
        RewriteRow(
            owner.current_stage(), step.pass_name, step.rule, step.why,
            list(step.before), list(step.after), step.seconds,
        )
    )  # fmt: skip


def _write_reject(owner: GraphWriter, step: Reject) -> None:
    numbers = json.dumps(dict(step.numbers)) if step.numbers else ""
    owner.add(
        RejectRow(
            owner.current_stage(), step.pass_name, step.rule, step.why, list(step.nodes), numbers
        )
    )


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


def _groups(
    owner: GraphWriter, scopes: Sequence[Scope], labels: Sequence[tuple[str, str]]
) -> Sequence[int]:
    groups = []
    named = [s for s in scopes if s.name]
    if named:
        names, classes = [s.name for s in named], [s.cls for s in named]
        groups.append(owner.group_path("module", names, classes))
    groups += [owner.group_path(grouping, [group]) for grouping, group in labels]
    return groups
