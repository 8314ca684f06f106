"""How an fx graph becomes a graph of a recording: every node, with all that its meta says.

A `get_attr` that only fetches the graph of a branch or of a delegate is no node: the graph hangs on
the call that gets it, and can be opened there.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from glasshouse.compat.executorch.marks import Marks
from glasshouse.compat.executorch.modules import module_of
from glasshouse.compat.executorch.names import argument_names, leaves, op_name, text, types_of
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.pt2.read import frames_of, user_line
from glasshouse.record import GraphWriter, RecordingBuilder


@dataclass
class Unread:
    """A graph that is still to be read, and where it goes."""

    builder: GraphWriter
    module: torch.fx.GraphModule
    roles: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # input -> op, target


class FxReader:
    """Reads one fx graph; `bodies` are the graphs found inside it."""

    def __init__(self, made: RecordingBuilder, part: Unread, marks: Marks) -> None:
        self.made = made
        self.builder = part.builder
        self.module = part.module
        self.roles = part.roles
        self.bodies: list[Unread] = []
        self.nodes = list(part.module.graph.nodes)
        self.marked = marks.groups(self.nodes, part.builder)
        self.ids: dict[Any, int] = {}
        self._graphs: dict[Any, tuple[int, dict[str, str]]] = {}  # get_attr -> body, its facts
        self._frames: dict[str, tuple[list[str], str, int]] = {}

    def read(self) -> None:
        inputs: list[int] = []
        outputs: list[tuple[int, int]] = []
        for node in self.nodes:
            if node.op == "output":
                outputs = [self._value(n) for _, n in leaves("", node.args) if n in self.ids]
            elif node.op == "placeholder":
                inputs.append(self._input(node))
            elif node.op != "get_attr" or not self._body(node):
                self._call(node)
        self.builder.set_io(inputs, outputs)

    def _value(self, node: Any) -> tuple[int, int]:
        return self.ids.get(node, -1), 0

    def _input(self, node: Any) -> int:
        op, target = self.roles.get(node.name, ("Input", ""))
        attrs = _meta(node) | ({"target": target} if target else {})
        path = target.split(".")[:-1] if target else []
        groups = [self.builder.group_path("module", path), *self.marked[node]]
        return self._add(node, op, "source", attrs, groups)

    def _call(self, node: Any) -> None:
        op = "get_attr" if node.op == "get_attr" else op_name(node.target)
        attrs = {"target": str(node.target)} if node.op == "get_attr" else {}
        inputs, input_names, bodies = [], [], []
        names = argument_names(node.target)
        given = [
            (names[i] if i < len(names) else "", str(i), a) for i, a in enumerate(node.args)
        ] + [(key, key, a) for key, a in node.kwargs.items()]
        for name, place, argument in given:
            if node.target is operator.getitem and place == "1":
                attrs["index"] = text(argument)
                continue
            found = list(leaves(name, argument))
            for at, producer in found:
                if producer in self._graphs:
                    body, facts = self._graphs[producer]
                    attrs |= facts
                    if body >= 0:
                        bodies.append(body)
                else:
                    port = _index(node) if place == "0" else 0
                    inputs.append((self.ids.get(producer, -1), port))
                    input_names.append(at)
            if not found:
                attrs[name or place] = text(argument)
        for key, value in _meta(node).items():
            attrs[f"meta.{key}" if key in attrs else key] = value
        (path, classes), served = module_of(node)
        if served:
            attrs["module of"] = served
        groups = [self.builder.group_path("module", path, classes), *self.marked[node]]
        self._add(node, op, kind_of(op), attrs, groups, inputs, input_names, bodies)

    def _add(
        self,
        node: Any,
        op: str,
        kind: str,
        attrs: dict[str, str],
        groups: list[int],
        inputs: list[tuple[int, int]] | None = None,
        input_names: list[str] | None = None,
        bodies: list[int] | None = None,
    ) -> int:
        frames, file, line = self._source(node)
        types = types_of(node.meta.get("val"))
        id = self.builder.node(
            op,
            name=node.name,
            kind=kind,
            inputs=inputs or [],
            outputs=types,
            attrs=attrs,
            groups=groups,
            file=file,
            line=line,
            bodies=bodies or [],
            output_names=[node.name] if len(types) == 1 else [],
            input_names=input_names if input_names and any(input_names) else [],
            frames=frames,
        )
        self.ids[node] = id
        return id

    def _source(self, node: Any) -> tuple[list[str], str, int]:
        trace = node.meta.get("stack_trace") or ""
        found = self._frames.get(trace)
        if found is None:
            frames = frames_of(trace)
            file, line = user_line(frames)
            said = [f"{f}:{n} {where}".rstrip() for f, n, where in frames]
            found = self._frames[trace] = (said, file, line)
        return found

    def _body(self, node: Any) -> bool:
        """Whether a `get_attr` fetches a graph or a delegate; notes what is in it."""
        held: Any = self.module
        for step in str(node.target).split("."):
            held = getattr(held, step, None)
        facts: dict[str, str] = {}
        roles: Mapping[str, tuple[str, str]] = {}
        inner = held
        if hasattr(held, "backend_id"):  # a delegate: ExecuTorch's LoweredBackendModule
            facts["delegate"] = str(held.backend_id)
            blob = getattr(held, "processed_bytes", None)
            if blob is not None:
                facts["delegate bytes"] = str(len(blob))
            program = getattr(held, "original_module", None)
            inner = getattr(program, "graph_module", program)
            roles = roles_of(program)
        if isinstance(inner, torch.fx.GraphModule):
            builder = self.made.graph(node.name, parent=self.builder.index)
            builder.stage("exported")
            self.bodies.append(Unread(builder, inner, roles))
            self._graphs[node] = (builder.index, facts)
        elif facts:
            self._graphs[node] = (-1, facts)
        return node in self._graphs


def roles_of(program: Any) -> dict[str, tuple[str, str]]:
    """Op and target of each input of an exported program: ("Parameter", "layers.0.weight")."""
    signature = getattr(program, "graph_signature", None)
    out = {}
    for spec in getattr(signature, "input_specs", ()):
        kind = spec.kind.name
        op = {"USER_INPUT": "Input", "CONSTANT_TENSOR": "Constant", "CUSTOM_OBJ": "Object"}.get(
            kind, kind.capitalize()
        )
        out[str(getattr(spec.arg, "name", ""))] = (op, spec.target or "")
    return out


def _index(node: Any) -> int:
    """Which result of its producer a `getitem` takes; 0 for all other nodes."""
    if node.target is not operator.getitem or len(node.args) < 2:
        return 0
    several = isinstance(getattr(node.args[0], "meta", {}).get("val"), (list, tuple))
    return node.args[1] if several and isinstance(node.args[1], int) else 0


def _meta(node: Any) -> dict[str, str]:
    """What others wrote on a node in plain words and numbers: tags, clusters, debug handles."""
    return {
        str(key): text(value)
        for key, value in node.meta.items()
        if isinstance(value, (str, int, float)) and key not in ("stack_trace", "val")
    }
