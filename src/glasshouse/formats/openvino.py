"""OpenVINO IR: the layers and edges of the `.xml` as a graph; the weights beside it stay unread.

The text is walked once by expat, event by event. A document type, and with it every entity that
could name a file or unfold, is refused at its first character.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from glasshouse.formats.kinds import kind_of
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphWriter, Recording, RecordingBuilder
from glasshouse.record.writer import NO_PRODUCER, SAME_ID

GENERATOR = "openvino"
_DTYPES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "i64": "int64",
    "i32": "int32", "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32",
    "u16": "uint16", "u8": "uint8", "bool": "bool", "boolean": "bool", "i4": "int4", "u4": "uint4",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip


@dataclass
class _Port:
    id: str
    precision: str
    name: str
    dims: list[str] = field(default_factory=list)

    def type(self) -> str:
        dtype = _DTYPES.get(self.precision.lower(), self.precision.lower())
        return f"{dtype}[{', '.join('?' if d == '-1' else d for d in self.dims)}]"


@dataclass
class _Layer:
    id: str
    name: str
    op: str
    attrs: dict[str, str]
    inputs: list[_Port] = field(default_factory=list)
    outputs: list[_Port] = field(default_factory=list)
    bodies: list[_Net] = field(default_factory=list)


@dataclass
class _Net:
    name: str
    layers: list[_Layer] = field(default_factory=list)
    # (layer, port) that is read, by the (layer, port) that reads it
    edges: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)


def read(source: SourceFile) -> Recording:
    """The recording of an IR's `.xml` file."""
    document = _Document(source)
    made = RecordingBuilder(document.net.name or source.stem, GENERATOR, source.budget)
    made.facts |= document.facts
    waiting = [(document.net, made.graph(document.net.name or source.stem))]
    while waiting:
        net, builder = waiting.pop()
        waiting += _write(made, net, builder)
    return made.finish()


class _Document:
    """What the events of the parser leave behind: nets of layers."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.net = _Net("")
        self.facts: dict[str, str] = {}
        self._nets = [self.net]
        self._layers: list[_Layer] = []  # those that are open; bodies lie inside of layers
        self._path: list[str] = [""]
        self._port: _Port | None = None
        self._text: list[str] | None = None
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        source.budget.place = lambda: f"line {parser.CurrentLineNumber}"
        try:
            parser.Parse(source.data(), True)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise source.error(
                f"XML that is cut off or damaged at line {error.lineno} ({what})"
            ) from None

    def _refuse_doctype(self, *given: object) -> NoReturn:
        raise self.source.error(
            "XML with a document type (<!DOCTYPE), which can name other files; no program writes "
            "one for OpenVINO, so it is not opened"
        )

    def _start(self, tag: str, attrs: dict[str, str]) -> None:
        budget, path = self.source.budget, self._path
        budget.spend("items", 1 + len(attrs))
        budget.within("depth", len(path))
        parent, above = path[-1], path[-2] if len(path) > 1 else ""
        path.append(tag)
        if len(path) == 2:
            self._root(tag, attrs)
        elif tag == "layer" and parent == "layers":
            self._layer(attrs)
        elif tag == "edge" and parent == "edges":
            reads = attrs.get("to-layer", ""), attrs.get("to-port", "")
            self._nets[-1].edges[reads] = attrs.get("from-layer", ""), attrs.get("from-port", "")
        elif above == "net" and parent == "rt_info" and "value" in attrs:
            self.facts[attrs.get("name", tag).replace("_", " ")] = attrs["value"]
        elif self._layers:
            self._inside(tag, parent, above, attrs)

    def _root(self, tag: str, attrs: dict[str, str]) -> None:
        if tag != "net":
            raise self.source.error(
                f"XML, but no OpenVINO model: its outermost element is <{tag[:40]}>, not <net>"
            )
        self.net.name = attrs.get("name", "")
        if "version" in attrs:
            self.facts["IR version"] = attrs["version"]

    def _layer(self, attrs: dict[str, str]) -> None:
        kept = {k: v for k, v in attrs.items() if k in ("version", "precision")}
        layer = _Layer(attrs.get("id", ""), attrs.get("name", ""), attrs.get("type", ""), kept)
        self._nets[-1].layers.append(layer)
        self._layers.append(layer)

    def _inside(self, tag: str, parent: str, above: str, attrs: dict[str, str]) -> None:
        layer = self._layers[-1]
        if parent == "layer" and tag == "data":
            layer.attrs.update(attrs)
        elif parent == "layer" and tag.endswith("body"):
            body = _Net(tag)
            layer.bodies.append(body)
            self._nets.append(body)
        elif tag == "port" and above == "layer" and parent in ("input", "output"):
            port = _Port(attrs.get("id", ""), attrs.get("precision", ""), attrs.get("names", ""))
            (layer.inputs if parent == "input" else layer.outputs).append(port)
            self._port = port
        elif tag == "dim" and parent == "port" and self._port is not None:
            self._text = []
        elif tag == "attribute" and parent == "rt_info" and above == "layer" and "value" in attrs:
            layer.attrs[attrs.get("name", "")] = attrs["value"]
        elif parent == "blobs" and above == "layer" and "size" in attrs:  # versions up to 7
            layer.attrs[tag] = f"{attrs['size']} bytes"

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, tag: str) -> None:
        self._path.pop()
        parent = self._path[-1]
        if tag == "dim" and self._text is not None:
            if self._port is not None:
                self._port.dims.append("".join(self._text).strip())
            self._text = None
        elif tag == "port":
            self._port = None
        elif tag == "layer" and parent == "layers" and self._layers:
            self._layers.pop()
        elif tag.endswith("body") and parent == "layer" and len(self._nets) > 1:
            self._nets.pop()


def _write(
    made: RecordingBuilder, net: _Net, builder: GraphWriter
) -> list[tuple[_Net, GraphWriter]]:
    """Adds the nodes of one net; returns the bodies that are still to be written."""
    builder.stage("model")
    producer: dict[tuple[str, str], tuple[int, int]] = {}
    seen = set()
    for id, layer in enumerate(net.layers):
        if layer.id in seen:
            made.repaired(SAME_ID)
        seen.add(layer.id)
        for place, port in enumerate(layer.outputs):
            producer.setdefault((layer.id, port.id), (id, place))
    bodies: list[tuple[_Net, GraphWriter]] = []
    inputs, outputs = [], []
    for id, layer in enumerate(net.layers):
        operands = []
        for port in layer.inputs:
            read = net.edges.get((layer.id, port.id))
            found = producer.get(read) if read else None
            if read and found is None:
                made.repaired(NO_PRODUCER)
            operands.append(found or (-1, 0))
        inner = [(body, made.graph(body.name, parent=builder.index)) for body in layer.bodies]
        bodies += inner
        names = [port.name for port in layer.outputs]
        builder.node(
            layer.op,
            id=id,
            name=layer.name,
            kind="source" if layer.op in ("Const", "Parameter") else kind_of(layer.op),
            inputs=operands,
            outputs=[port.type() for port in layer.outputs],
            attrs=layer.attrs,
            groups=[builder.group_path("module", _modules(layer.name))],
            bodies=[graph.index for _, graph in inner],
            output_names=names if any(names) else [],
        )
        if layer.op in ("Parameter", "Input"):
            inputs.append(id)
        if layer.op == "Result":
            outputs += [o for o in operands if o[0] >= 0]
    builder.set_io(inputs, outputs)
    return bodies


def _modules(name: str) -> list[str]:
    """The modules that a layer's name tells: of PyTorch "__module.a.b/aten::linear/Add" and
    "self.a.b.weight", of others "a/b/Conv"."""
    scope, slash, _ = name.partition("/")
    if scope.startswith("__module."):
        return scope.split(".")[1:]
    if not slash:
        return name.split(".")[1:-1] if name.startswith("self.") else []
    return [part for part in name.split("/")[:-1] if part]
