"""How a Core ML model becomes a recording: its program, network or pipeline; no weights read."""

from __future__ import annotations

from typing import Any

from glasshouse.formats.coreml.program import write_program
from glasshouse.formats.coreml.schema import ACTIVATIONS, LAYERS, MODEL, MODELS
from glasshouse.formats.json_stream import read_json
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.protobuf import read as read_message
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphWriter, Recording, RecordingBuilder

GENERATOR = "coreml"
MANIFEST = "Manifest.json"
_ARRAYS = {65552: "float16", 65568: "float32", 65600: "float64", 131104: "int32"}
_FEATURES = (
    "int64Type", "doubleType", "stringType", "imageType", "multiArrayType", "dictionaryType",
    "sequenceType", "stateType",
)  # fmt: skip


def read(source: SourceFile) -> Recording:
    """The recording of a `.mlmodel` file or of a `.mlpackage` folder."""
    file = _inside(source) if source.is_folder else source
    model = read_message(file, MODEL, "a Core ML model")
    made = RecordingBuilder(source.stem, GENERATOR, file.budget)
    made.facts["specification version"] = str(model.specificationVersion)
    about = model.description.metadata
    for fact, said in (
        ("description", about.shortDescription), ("version", about.versionString),
        ("author", about.author), ("license", about.license),
        *((entry.key, entry.value) for entry in about.userDefined),
    ):  # fmt: skip
        if said:
            made.facts[fact] = said
    waiting = [(model, made.graph(source.stem))]
    while waiting:
        inner, builder = waiting.pop()
        waiting += _model(file, made, inner, builder)
    return made.finish()


def _inside(source: SourceFile) -> SourceFile:
    """The specification in a package, which the manifest names."""
    assert source.path is not None
    listed = SourceFile(source.path / MANIFEST, f"{source.name}: {MANIFEST}")
    manifest = read_json(listed)
    entries: Any = manifest.get("itemInfoEntries") if isinstance(manifest, dict) else None
    root: Any = manifest.get("rootModelIdentifier") if isinstance(manifest, dict) else None
    entry: Any = entries.get(root) if isinstance(entries, dict) and isinstance(root, str) else None
    path: Any = entry.get("path") if isinstance(entry, dict) else None
    found = listed.beside(f"Data/{path}") if isinstance(path, str) else None
    if found is None:
        raise source.error("a Core ML package whose manifest names no model that is there")
    return SourceFile(found, source.name)


def _model(
    source: SourceFile, made: RecordingBuilder, model: Any, builder: GraphWriter
) -> list[tuple[Any, GraphWriter]]:
    """Adds one model; returns those inside of it."""
    kind = model.chosen(*MODELS)
    if not kind:
        raise source.error("a Core ML model of a kind that is not known, or cut off")
    held = getattr(model, kind)
    if kind == "mlProgram":
        write_program(made, held, builder)
        return []
    if kind.startswith("neuralNetwork"):
        networks = [(held, builder, model.description.input)]
        while networks:
            network, target, inputs = networks.pop()
            outputs = model.description.output if target is builder else ()
            networks += _network(made, network, target, inputs, outputs)
        return []
    pipeline = held if kind == "pipeline" else held.pipeline if kind.startswith("pipe") else None
    parts = [(kind, model)] if pipeline is None else _parts(pipeline)
    wires = _Wires(builder)
    inputs = [wires.source("Input", f.name, _feature(f.type)) for f in model.description.input]
    later = []
    for name, part in parts:
        bodies = []
        if pipeline is not None:
            body = made.graph(name, parent=builder.index)
            later.append((part, body))
            bodies = [body.index]
        wires.node(
            part.chosen(*MODELS) or "model",
            name,
            [f.name for f in part.description.input],
            [(f.name, _feature(f.type)) for f in part.description.output],
            {},
            bodies,
        )
    builder.set_io(inputs, [wires.read(f.name) for f in model.description.output])
    return later


def _parts(pipeline: Any) -> list[tuple[str, Any]]:
    names = pipeline.names
    return [
        (names[i] if i < len(names) else f"model{i}", part)
        for i, part in enumerate(pipeline.models)
    ]


def _network(
    made: RecordingBuilder, network: Any, builder: GraphWriter, features: Any, results: Any
) -> list[tuple[Any, GraphWriter, Any]]:
    """Adds the layers of one network; returns those of its branches and loops."""
    wires = _Wires(builder)
    inputs = [wires.source("Input", f.name, _feature(f.type)) for f in features]
    later: list[tuple[Any, GraphWriter, Any]] = []
    for layer in network.layers:
        kind = layer.chosen(*LAYERS) or "layer"
        attrs: dict[str, str] = {}
        bodies = []
        written: list[set[str]] = []
        if kind in ("branch", "loop"):
            for field in ("ifBranch", "elseBranch", "conditionNetwork", "bodyNetwork"):
                params = getattr(layer, kind)
                if field in params.fields() and params.has(field):
                    body = made.graph(field, parent=builder.index)
                    bodies.append(body.index)
                    inner = getattr(params, field)
                    later.append((inner, body, ()))
                    written.append({name for part in inner.layers for name in part.output})
        elif kind == "activation":
            attrs = {"type": layer.activation.chosen(*ACTIVATIONS)}
        elif layer.has(kind):
            attrs = _parameters(getattr(layer, kind))
        shapes = [_shape(s) for s in layer.outputTensor]
        outputs = [(n, shapes[i] if i < len(shapes) else "") for i, n in enumerate(layer.output)]
        # Branches and loops name no outputs: what all of their bodies write is theirs.
        shared = set.intersection(*written[-2 if kind == "branch" else -1 :]) if written else set()
        outputs += [(name, "") for name in sorted(shared.difference(layer.output))]
        wires.node(kind, layer.name, list(layer.input), outputs, attrs, bodies)
    builder.set_io(inputs, [wires.read(f.name) for f in results])
    return later


def _parameters(params: Any) -> dict[str, str]:
    """Numbers of a layer, and how many bytes its weights take."""
    out = {}
    for name in params.fields():
        if not params.has(name) or name == "nothing":
            continue
        value = getattr(params, name)
        if name in ("weights", "bias"):
            size = len(value.floatValue) + len(value.float16Value) + len(value.rawValue)
            out[name] = f"{size} bytes"
        else:
            out[name] = str(list(value[:8]) if isinstance(value, tuple) else value)
    return out


class _Wires:
    """A graph in the making, whose values are known by name."""

    def __init__(self, builder: GraphWriter) -> None:
        self.builder = builder
        self.producer: dict[str, tuple[int, int]] = {}
        builder.stage("model")

    def source(self, op: str, name: str, type: str) -> int:
        node = self.builder.node(
            op, name=name, kind="source", outputs=[type], output_names=[name] if name else []
        )
        self.producer[name] = (node, 0)
        return node

    def read(self, name: str) -> tuple[int, int]:
        """A value by name; one that nothing here makes comes from around it."""
        if name not in self.producer:
            self.source("Captured", name, "")
        return self.producer[name]

    def node(
        self,
        op: str,
        name: str,
        reads: list[str],
        outputs: list[tuple[str, str]],
        attrs: dict[str, str],
        bodies: list[int],
    ) -> None:
        operands = [self.read(said) for said in reads]
        names = [said for said, _ in outputs]
        path = [part for part in name.split("/")[:-1] if part]
        id = self.builder.node(
            op,
            name=name,
            kind=kind_of(op),
            inputs=operands,
            outputs=[type for _, type in outputs],
            attrs=attrs,
            groups=[self.builder.group_path("module", path)],
            bodies=bodies,
            output_names=names if any(names) else [],
        )
        self.producer.update({said: (id, port) for port, said in enumerate(names)})


def _feature(type: Any) -> str:
    chosen = type.chosen(*_FEATURES)
    if chosen == "multiArrayType":
        array = type.multiArrayType
        dtype = _ARRAYS.get(array.dataType, f"type{array.dataType}")
        return f"{dtype}[{', '.join(map(str, array.shape[:64]))}]"
    if chosen == "imageType":
        return f"image[{type.imageType.height}, {type.imageType.width}]"
    return str(chosen).removesuffix("Type")


def _shape(shape: Any) -> str:
    dims = ["?" if d < 0 else str(d) for d in shape.dimValue[:64]]
    return f"[{', '.join(dims)}]" if dims else ""
