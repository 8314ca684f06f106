"""How a recording becomes an ONNX file that any ONNX viewer opens.

Ops that ONNX defines keep its domain when the recording came from ONNX; every other op goes under
the domain `glasshouse`. Weights are not in a recording: constants are declared with type and shape
and refer to a file that is not written.
"""

from __future__ import annotations

import json
import re
from typing import Any

from glasshouse.formats.kinds import WEIGHTS
from glasshouse.formats.onnx.package import onnx_package
from glasshouse.formats.onnx.read import GENERATOR
from glasshouse.formats.onnx.types import NUMBERS
from glasshouse.record import GraphView, Recording
from glasshouse.record.schema import NodeRow

DOMAIN = "glasshouse"
MISSING = "weights-are-not-in-the-recording"
_TYPE = re.compile(r"(\w+)\[(.*)\]", re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,18}")
MAX_NESTING = 50


def write(recording: Recording) -> bytes:
    """The last stage of the first graph, with nested graphs inside their nodes."""
    return _Writer(recording).model()


def lost(recording: Recording) -> list[str]:
    """What the recording says and ONNX cannot hold."""
    tables = {name.partition("/")[2] for name in recording.table_names()}
    out = [WEIGHTS]
    if any(len(g.info.stages) > 1 for g in recording.graphs):
        out.append("stages before the last")
    if sum(g.info.parent < 0 for g in recording.graphs) > 1:
        out.append("graphs after the first")
    names = ("kernels", "candidates", "times", "errors", "summaries", "data", "rewrites", "rejects")
    return out + [name for name in names if name in tables]


class _Writer:
    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.onnx = onnx_package("writing ONNX")
        self.is_onnx = recording.header.generator == GENERATOR
        self.domains: set[str] = {DOMAIN}
        self.written: set[int] = {0}  # graphs that stand somewhere in the model
        self.taken: set[str] = {""}  # names of values, unique over all nested graphs

    def model(self) -> bytes:
        helper = self.onnx.helper
        if not self.recording.graphs:
            graph = helper.make_graph([], "empty", [], [])
        else:
            graph = self._graph(self.recording.graphs[0], 0)
        opsets = [helper.make_opsetid("", min(21, self.onnx.defs.onnx_opset_version()))]
        opsets += [helper.make_opsetid(domain, 1) for domain in sorted(self.domains)]
        model = helper.make_model(graph, producer_name="glasshouse", opset_imports=opsets)
        model.ir_version = 10
        for key, value in self.recording.header.facts.items():
            _property(model, key, value)
        data: bytes = model.SerializeToString(deterministic=True)
        return data

    def _graph(self, view: GraphView, depth: int) -> Any:
        helper = self.onnx.helper
        stage = view.stage(-1)
        nodes = list(stage.nodes)
        names = self._value_names(nodes, depth)
        inputs, constants, made = [], [], []
        graph_inputs = set(stage.info.inputs)
        paths = _paths(view)
        for node in nodes:
            is_leaf = not node.input_nodes and node.kind == "source" and not node.bodies
            if is_leaf and (node.id in graph_inputs or node.op in ("Input", "Captured")):
                if node.op != "Captured":
                    inputs.append(self._info(names[node.id, 0], _at(node.outputs, 0)))
            elif is_leaf and node.outputs:
                constants.append(self._constant(names[node.id, 0], node.outputs[0]))
            else:
                made.append(self._node(node, names, paths, depth))
        outputs = []
        for id, port in zip(stage.info.output_nodes, stage.info.output_ports, strict=True):
            row = stage.row_of.get(id)
            if row is not None and (id, port) in names:
                outputs.append(self._info(names[id, port], _at(nodes[row].outputs, port)))
        graph = helper.make_graph(made, view.name or "graph", inputs, outputs, constants)
        produced = {name for node in made for name in node.output}
        done = {o.name for o in outputs}
        for node in nodes:
            for port, kind in enumerate(node.outputs):
                name = names[node.id, port]
                if kind and name in produced and name not in done:
                    graph.value_info.append(self._info(name, kind))
        for key, value in view.info.attrs.items():
            _property(graph, key, value)
        return graph

    def _node(
        self,
        node: NodeRow,
        names: dict[tuple[int, int], str],
        paths: list[str],
        depth: int,
    ) -> Any:
        domain, op = self._operator(node.op)
        operands = zip(node.input_nodes, node.input_ports, strict=True)
        inputs = [
            names.get(value, "" if value[0] < 0 else f"{value[0]}:{value[1]}") for value in operands
        ]
        outputs = [names[node.id, port] for port in range(max(1, len(node.outputs)))]
        name = node.name or str(node.id)
        group = next((paths[g] for g in node.groups if paths[g]), "")
        if group and "/" not in name:
            name = f"{group}/{name}"
        made = self.onnx.helper.make_node(op, inputs, outputs, name=name, domain=domain)
        if node.file:
            made.doc_string = f"{node.file}:{node.line}"
        seen: set[str] = set()
        for key, text in zip(node.attr_keys, node.attr_values, strict=True):
            clean = re.sub(r"\W+", "_", key).strip("_") or "attribute"
            while clean in seen:
                clean += "_"
            seen.add(clean)
            made.attribute.append(self.onnx.helper.make_attribute(clean, _value(text)))
        for i, body in enumerate(node.bodies):
            view = self.recording.graphs[body]
            said: Any = view.name
            # A graph that several nodes hold is written once: graphs that hold each other twice
            # would unfold without end. The others name it.
            if depth < MAX_NESTING and view.info.parent >= 0 and body not in self.written:
                self.written.add(body)
                said = self._graph(view, depth + 1)
            made.attribute.append(self.onnx.helper.make_attribute(f"body_{i}", said))
        return made

    def _value_names(self, nodes: list[NodeRow], depth: int) -> dict[tuple[int, int], str]:
        """A unique name for every value: the file's own where it is unique."""
        out: dict[tuple[int, int], str] = {}
        for node in nodes:
            for port in range(max(1, len(node.outputs), len(node.output_names))):
                name = plain = _at(node.output_names, port)
                if node.op == "Captured" and depth:
                    out[node.id, port] = name or node.name
                    continue
                if not name or name in self.taken:
                    name = plain = f"{node.name or node.id}:{port}"
                copy = 2
                while name in self.taken:
                    name, copy = f"{plain}#{node.id}.{copy}", copy + 1
                self.taken.add(name)
                out[node.id, port] = name
        return out

    def _operator(self, op: str) -> tuple[str, str]:
        if self.is_onnx:
            domain, dot, name = op.rpartition(".")
            if not dot and self.onnx.defs.has(op):
                return "", op
            if dot:
                self.domains.add(domain)
                return domain, name
        return DOMAIN, op or "op"

    def _info(self, name: str, kind: str) -> Any:
        dtype, dims = parse_type(kind)
        if dtype is None:
            return self.onnx.helper.make_empty_tensor_value_info(name)
        return self.onnx.helper.make_tensor_value_info(name, dtype, dims)

    def _constant(self, name: str, kind: str) -> Any:
        dtype, dims = parse_type(kind)
        tensor = self.onnx.TensorProto(name=name, data_type=dtype or 1)
        tensor.dims.extend(d if isinstance(d, int) and d >= 0 else 1 for d in dims or ())
        tensor.data_location = 1
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", MISSING
        return tensor


def parse_type(kind: str) -> tuple[int | None, list[int | str] | None]:
    """Element type and dimensions of "float32[s0, 8]"; None for what ONNX has no word for."""
    found = _TYPE.fullmatch(kind)
    if not found:
        return NUMBERS.get(kind), None
    dims: list[int | str] = []
    for part in found[2].split(","):
        part = part.strip()
        if part:
            dims.append(int(part) if _NUMBER.fullmatch(part) else part)
    return NUMBERS.get(found[1]), dims


def _paths(view: GraphView) -> list[str]:
    out: list[str] = []
    for group in view.groups:
        above = f"{out[group.parent]}/" if group.parent >= 0 else ""
        out.append(above + group.name.replace("/", "_") if group.grouping == "module" else "")
    return out


def _value(text: str) -> Any:
    """An attribute's text as the number or list of numbers that it spells, else as it is."""
    if _NUMBER.fullmatch(text):
        return int(text)
    if re.fullmatch(r"[-+\d.eE, \[\]]{1,2000}", text):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(value, float):
            return value
        if isinstance(value, list) and value:
            if all(type(v) is int and abs(v) < 2**63 for v in value):
                return value
            if all(type(v) in (int, float) for v in value):
                return [float(v) for v in value]
    return text


def _property(target: Any, key: str, value: str) -> None:
    entry = target.metadata_props.add()
    entry.key, entry.value = key, value


def _at(items: list[str], place: int) -> str:
    return items[place] if place < len(items) else ""
