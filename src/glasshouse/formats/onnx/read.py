"""How an ONNX model becomes a recording: as it stands, without checking or inferring.

A broken shape is shown as it is, a missing external file is named, a value that nobody produces is
an operand from nowhere. Groups come from the exporter's own scopes where the model has them, else
from the slashes in node names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from glasshouse.formats import protobuf
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.onnx.modules import Modules
from glasshouse.formats.onnx.schema import MODEL
from glasshouse.formats.onnx.types import attribute_text, tensor_type, tensor_values, value_type
from glasshouse.formats.pt2.read import frames_of, user_line
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphWriter, Recording, RecordingBuilder
from glasshouse.record.writer import NO_PRODUCER

GENERATOR = "onnx"
_SCOPES, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
_STACK = "pkg.torch.onnx.stack_trace"


def read(source: SourceFile) -> Recording:
    """The recording of an `.onnx` file."""
    model = protobuf.read(source, MODEL, "an ONNX model")
    if not model.has("graph") or not (model.ir_version or model.opset_import):
        raise source.error("not an ONNX model (it has no graph)")
    return _Model(source, model).read()


class _Model:
    def __init__(self, source: SourceFile, model: Any) -> None:
        self.source = source
        self.model = model
        self.made = RecordingBuilder(source.stem, GENERATOR, source.budget)
        self.functions: dict[tuple[str, str], int] = {}

    def read(self) -> Recording:
        model, made = self.model, self.made
        facts = {
            "ir version": model.ir_version,
            "producer": f"{model.producer_name} {model.producer_version}".strip(),
            "domain": model.domain,
            "model version": model.model_version,
            "opsets": ", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import),
        }
        made.facts.update({k: str(v) for k, v in facts.items() if v})
        main = made.graph(model.graph.name or self.source.stem)
        main.attrs.update({p.key: p.value for p in model.metadata_props})
        if model.doc_string:
            main.attrs["doc"] = model.doc_string
        waiting: list[tuple[GraphWriter, Any]] = [(main, model.graph)]
        for function in model.functions:
            key = (function.domain, function.name)
            builder = made.graph(".".join(key).lstrip("."))
            self.functions[key] = builder.index
            waiting.append((builder, function))
        # Bodies are read from a list, so that nesting costs no recursion.
        while waiting:
            builder, graph = waiting.pop()
            waiting += _Graph(self, builder, graph).read()
        return made.finish()


class _Graph:
    def __init__(self, owner: _Model, builder: GraphWriter, graph: Any) -> None:
        self.owner = owner
        self.builder = builder
        self.graph = graph
        self.is_function = not hasattr(graph, "initializer")
        self.producer: dict[str, tuple[int, int]] = {}
        self.types: dict[str, str] = {}
        self.modules = Modules()

    def read(self) -> list[tuple[GraphWriter, Any]]:
        graph, builder = self.graph, self.builder
        builder.stage("model")
        if graph.doc_string:
            builder.attrs.setdefault("doc", graph.doc_string)
        given: list[tuple[str, str]] = []
        if self.is_function:
            given = [(name, "") for name in graph.input]
        else:
            for info in (*graph.value_info, *graph.output, *graph.input):
                self.types[info.name] = value_type(info.type)
            stored = {t.name for t in graph.initializer}
            names = [i.name for i in graph.input]
            given = [(name, self.types[name]) for name in names if name not in stored]
        for node in graph.node:
            self.modules.add(_path(node.name, _properties(node))[0])
        inputs = [self._source("Input", name, kind) for name, kind in given]
        if not self.is_function:
            self._initializers()
        later: list[tuple[GraphWriter, Any]] = []
        # A node may read what stands after it only in a broken file; it is found all the same.
        self._captured(graph.node)
        first = builder.next_id
        for i, node in enumerate(graph.node):
            for port, name in enumerate(node.output):
                if name:
                    self.producer.setdefault(name, (first + i, port))
        for i, node in enumerate(graph.node):
            later += self._node(first + i, node)
        names = [o if self.is_function else o.name for o in graph.output]
        builder.set_io(inputs, [self.producer[n] for n in names if n in self.producer])
        return later

    def _source(self, op: str, name: str, kind: str, attrs: dict[str, str] | None = None) -> int:
        path = self.modules.of(name) if op == "Initializer" else []
        node = self.builder.node(
            op,
            name=name,
            kind="source",
            outputs=[kind],
            attrs=attrs or {},
            output_names=[name],
            groups=[self.builder.group_path("module", path)],
        )
        self.producer.setdefault(name, (node, 0))
        return node

    def _initializers(self) -> None:
        for tensor in self.graph.initializer:
            attrs = {}
            values = tensor_values(tensor)
            if values:
                attrs["value"] = f"[{', '.join(values)}]"
            if tensor.data_location == 1:
                place = {e.key: e.value for e in tensor.external_data}
                attrs |= {f"external {k}": v for k, v in place.items()}
                source = self.owner.source
                if source.path is not None and source.beside(place.get("location", "")) is None:
                    attrs["external file"] = "missing"
            self._source("Initializer", tensor.name, tensor_type(tensor), attrs)
        for sparse in self.graph.sparse_initializer:
            dims = ", ".join(map(str, sparse.dims))
            kind = tensor_type(sparse.values).partition("[")[0]
            self._source("Initializer", sparse.values.name, f"sparse {kind}[{dims}]")

    def _captured(self, nodes: Any) -> None:
        """Values of an outer graph that a body reads, as nodes of their own."""
        if self.builder.parent < 0:
            return
        made = {name for node in nodes for name in node.output}
        for node in nodes:
            for name in node.input:
                if name and name not in made and name not in self.producer:
                    self._source("Captured", name, "")

    def _node(self, id: int, node: Any) -> list[tuple[GraphWriter, Any]]:
        later: list[tuple[GraphWriter, Any]] = []
        title, op, domain = node.name, node.op_type, node.domain
        reads, makes = list(node.input), list(node.output)
        attrs: dict[str, str] = {}
        bodies: list[int] = []
        for attribute in node.attribute:
            said = attribute_text(attribute)
            if said is not None:
                attrs[attribute.name] = said
                continue
            for inner in attribute.graphs if attribute.type == 10 else (attribute.g,):
                name = f"{title or op}.{attribute.name}"
                body = self.owner.made.graph(name, parent=self.builder.index)
                bodies.append(body.index)
                later.append((body, inner))
        called = self.owner.functions.get((domain, op))
        if called is not None:
            bodies.append(called)
        properties = _properties(node)
        path, classes = _path(title, properties)
        frames = frames_of(properties.pop(_STACK, ""))
        file, line = user_line(frames)
        for key in (_SCOPES, _CLASSES):
            properties.pop(key, None)
        if node.doc_string:
            properties["doc"] = node.doc_string
        for name in reads:
            # A body may read what its surroundings make; only the outermost graph must have all.
            if name and name not in self.producer and self.builder.index == 0:
                self.owner.made.repaired(NO_PRODUCER)
        self.builder.node(
            f"{domain}.{op}" if domain not in ("", "ai.onnx") else op,
            id=id,
            name=title,
            kind=kind_of(op),
            inputs=[self.producer.get(name, (-1, 0)) for name in reads],
            outputs=[self.types.get(name, "") for name in makes],
            attrs=attrs | properties,
            groups=[self.builder.group_path("module", path, classes)],
            file=file,
            line=line,
            bodies=bodies,
            output_names=makes,
            input_names=reads,
            frames=[f"{f}:{n} {where}".rstrip() for f, n, where in frames],
        )
        return later


def _properties(node: Any) -> dict[str, str]:
    return {p.key: p.value for p in getattr(node, "metadata_props", ())}


def _path(name: str, properties: dict[str, str]) -> tuple[list[str], list[str]]:
    """Module path and classes of a node."""
    scopes, classes = _strings(properties.get(_SCOPES)), _strings(properties.get(_CLASSES))
    if scopes and len(scopes) == len(classes):
        names: list[str] = []
        kinds: list[str] = []
        before = ""
        for scope, cls in zip(scopes[:-1], classes[:-1], strict=True):
            if not scope:
                continue
            added = scope.removeprefix(before + ".") if before else scope
            steps = added.split(".")
            names += steps
            kinds += [""] * (len(steps) - 1) + [cls.rpartition(".")[2]]
            before = scope
        return names, kinds
    if "/" in name:
        return [part for part in name.split("/")[:-1] if part], []
    return [], []


def _strings(text: str | None) -> list[str]:
    """A printed Python list of strings; [] for anything else."""
    if not text or len(text) > 10_000 or not text.startswith("['"):
        return []
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    usable = isinstance(value, Iterable) and all(isinstance(v, str) for v in value)
    return list(value) if usable else []
