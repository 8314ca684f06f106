"""Keras models: the `config.json` of a `.keras` archive, or the same text in a `.h5`, as a graph.

A call of a layer is a node; a model used as a layer is unfolded, its calls in a group of its name.
The weights are not read and no layer's class is looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glasshouse.formats.archive import ForeignArchive
from glasshouse.formats.json_stream import read_json
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphWriter, Recording, RecordingBuilder
from glasshouse.record.writer import NO_PRODUCER

GENERATOR = "keras"
CONFIG = "config.json"
MAX_NESTED = 60  # models in models; real ones have three
MAX_TEXT = 300
_BLOCK = 1 << 22
_CONFIG_TEXT = re.compile(rb'\{"(?:module": "[^"\n]{0,99}", ")?class_name": "')
_MODELS = ("Sequential", "Functional", "Model")
Place = tuple[int, int]  # a node and its output


def read(source: SourceFile) -> Recording:
    """The recording of a `.keras` archive."""
    with ForeignArchive(source) as archive:
        text = archive.read(CONFIG)
        facts = {}
        if "metadata.json" in archive.names:
            part = SourceFile(archive.read("metadata.json"), source.name, source.budget)
            said = _dict(read_json(part))
            facts = {k.replace("_", " "): v for k, v in said.items() if isinstance(v, str)}
    config = SourceFile(text, f"{source.name}: {CONFIG}", source.budget)
    return _recording(source, read_json(config), facts)


def read_h5(source: SourceFile) -> Recording:
    """The recording of an HDF5 file that Keras wrote: the text of its attribute `model_config`.

    HDF5 keeps such a text in one piece, so it is searched for instead of walking the whole format.
    """
    return _recording(source, _config_in(source), {})


def _config_in(source: SourceFile) -> Any:
    start = 0
    while start < source.size:
        block = source.at(start, _BLOCK + 200)
        for found in _CONFIG_TEXT.finditer(block):
            at = start + found.start()
            # A text of variable length has its own length before it, one of fixed length is short.
            size = int.from_bytes(source.at(at - 8, 8), "little")
            size = size if 2 <= size <= source.size - at else 1 << 16
            source.budget.spend("decoded_bytes", size)
            text = source.at(at, size).decode("utf-8", "replace")
            try:
                value, _ = json.JSONDecoder().raw_decode(text)
            except (ValueError, RecursionError):
                continue
            if _dict(value).get("class_name") in _MODELS:
                return value
        start += _BLOCK
    raise source.error(
        "an HDF5 file without a Keras model's configuration; if it holds weights alone, load them "
        "into their model and save that: model.load_weights(FILE); model.save('model.keras')"
    )


def _recording(source: SourceFile, config: Any, facts: dict[str, str]) -> Recording:
    outer = _dict(config)
    if not isinstance(_dict(outer.get("config")).get("layers"), list):
        raise source.error(
            f"a Keras model of the class {_short(outer.get('class_name'))}, whose layers are "
            "called by Python code and not listed in the file; export it: "
            "model.export('model.onnx', format='onnx')"
        )
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    made.facts |= facts | {"class": _short(outer.get("class_name"))}
    compiled = _dict(outer.get("compile_config"))
    for what in ("optimizer", "loss"):
        if compiled.get(what):
            made.facts[what] = _short(compiled[what])
    graph = made.graph(_name(outer) or source.stem)
    graph.stage("model")
    unfolding = _Unfolding(source, made, graph)
    outputs = unfolding.model(outer, [], [])
    graph.set_io(unfolding.inputs, [o for o in outputs if o[0] >= 0])
    return made.finish()


@dataclass
class _Call:
    """One use of a layer, and what it reads."""

    layer: dict[str, Any]
    reads: list[tuple[str, int, int]]  # layer, which of its calls, which output
    attrs: dict[str, str]
    places: list[Place] | None = None  # of its outputs, once it has been unfolded


class _Unfolding:
    def __init__(self, source: SourceFile, made: RecordingBuilder, graph: GraphWriter) -> None:
        self.source = source
        self.made = made
        self.graph = graph
        self.inputs: list[int] = []

    def model(self, model: dict[str, Any], given: list[Place], path: list[str]) -> list[Place]:
        """Adds the nodes of a model that reads `given`; returns its outputs."""
        if len(path) > MAX_NESTED:
            raise self.source.error(f"models in models, more than {MAX_NESTED} deep")
        config = _dict(model.get("config"))
        layers = [_dict(layer) for layer in config.get("layers", [])]
        if model.get("class_name") == "Sequential":
            return self._sequential(config, layers, given, path)
        return self._functional(config, layers, given, path)

    def _sequential(
        self,
        config: dict[str, Any],
        layers: list[dict[str, Any]],
        given: list[Place],
        path: list[str],
    ) -> list[Place]:
        if not given and (not layers or layers[0].get("class_name") != "InputLayer"):
            shape = config.get("build_input_shape") or _built(layers[0] if layers else {})
            given = self._input("input", _type(shape, "float32"), path)
        places = given
        # A layer says the shape that it was built for, which is what the one before it gives.
        following = [_type(_built(layer), _dtype(layer)) for layer in layers[1:]]
        for layer, type in zip(layers, [*following, ""], strict=True):
            if layer.get("class_name") == "InputLayer":
                places = given or self._input(_name(layer), _input_type(layer), path)
            else:
                places = self._layer(layer, places, {}, [type], path)
        return places

    def _functional(
        self,
        config: dict[str, Any],
        layers: list[dict[str, Any]],
        given: list[Place],
        path: list[str],
    ) -> list[Place]:
        calls: dict[tuple[str, int], _Call] = {}
        types: dict[tuple[str, int], dict[int, str]] = {}  # of outputs; those who read them say it
        for layer in layers:
            for index, (reads, attrs) in enumerate(self._inbound(layer, types)):
                calls[_name(layer), index] = _Call(layer, reads, attrs)
        results = _histories(config.get("output_layers"))
        for name, index, port in results:
            types.setdefault((name, index), {}).setdefault(port, "")
        read_by_model = _histories(config.get("input_layers"))
        for place, (name, index, _) in zip(given, read_by_model, strict=False):
            if (name, index) in calls:
                calls[name, index].places = [place]
        for key in _in_order(calls):
            call = calls[key]
            if call.places is not None:
                continue
            if call.layer.get("class_name") == "InputLayer":
                call.places = self._input(key[0], _input_type(call.layer), path)
                continue
            operands = [self._place(calls, read) for read in call.reads]
            said = types.get(key, {})
            outputs = [said.get(port, "") for port in range(min(max(said, default=0), 4096) + 1)]
            call.places = self._layer(call.layer, operands, call.attrs, outputs, path)
        return [self._place(calls, read) for read in results]

    def _inbound(
        self, layer: dict[str, Any], types: dict[tuple[str, int], dict[int, str]]
    ) -> Iterator[tuple[list[tuple[str, int, int]], dict[str, str]]]:
        """What each call of a layer reads, and its other arguments."""
        nodes = layer.get("inbound_nodes")
        if layer.get("class_name") == "InputLayer":
            yield [], {}
            return
        for node in nodes if isinstance(nodes, list) else []:
            if isinstance(node, list):  # Keras 2: [[layer, call, output, keywords], ...]
                reads = _histories(node)
                yield reads, {}
                continue
            reads = []
            arguments = _dict(node)
            for tensor in _tensors(self.source, [arguments.get("args"), arguments.get("kwargs")]):
                history = _histories([tensor.get("keras_history")])[:1] or [("", 0, 0)]
                reads += history
                name, call, port = history[0]
                type = _type(tensor.get("shape"), _short(tensor.get("dtype")))
                types.setdefault((name, call), {}).setdefault(port, type)
            plain = {k: v for k, v in _dict(arguments.get("kwargs")).items() if _is_plain(v)}
            yield reads, {f"argument {k}": _short(v) for k, v in plain.items() if v is not None}

    def _place(self, calls: dict[tuple[str, int], _Call], read: tuple[str, int, int]) -> Place:
        name, index, port = read
        call = calls.get((name, index))
        if call is None or call.places is None:
            self.made.repaired(NO_PRODUCER)
            return -1, 0
        node, _ = call.places[0] if len(call.places) == 1 else (-1, 0)
        return call.places[port] if port < len(call.places) else (node, port)

    def _layer(
        self,
        layer: dict[str, Any],
        operands: list[Place],
        attrs: dict[str, str],
        outputs: list[str],
        path: list[str],
    ) -> list[Place]:
        cls = _short(layer.get("class_name"))
        config = _dict(layer.get("config"))
        if isinstance(config.get("layers"), list) and cls in _MODELS:
            return self.model(layer, operands, [*path, _name(layer)])
        self.source.budget.spend("items", 1 + len(config))
        said = {k: _short(v) for k, v in config.items() if k != "name" and v is not None}
        node = self.graph.node(
            cls,
            name=_name(layer),
            kind=kind_of(cls),
            inputs=operands,
            outputs=outputs,
            attrs=said | attrs,
            groups=[self.graph.group_path("module", path)],
        )
        return [(node, port) for port in range(len(outputs))]

    def _input(self, name: str, type: str, path: list[str]) -> list[Place]:
        node = self.graph.node(
            "Input",
            name=name,
            kind="source",
            outputs=[type],
            groups=[self.graph.group_path("module", path)],
        )
        if not path:
            self.inputs.append(node)
        return [(node, 0)]


def _in_order(calls: dict[tuple[str, int], _Call]) -> Iterator[tuple[str, int]]:
    """Calls after what they read; those that read each other in a circle come last."""
    readers: dict[tuple[str, int], list[tuple[str, int]]] = {}
    missing: dict[tuple[str, int], int] = {}
    for key, call in calls.items():
        known = [(name, index) for name, index, _ in call.reads if (name, index) in calls]
        missing[key] = len(known)
        for read in known:
            readers.setdefault(read, []).append(key)
    ready = [key for key in calls if not missing[key]]
    done = set()
    for key in ready:  # grows while it is walked
        done.add(key)
        yield key
        for reader in readers.get(key, []):
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    yield from (key for key in calls if key not in done)


def _tensors(source: SourceFile, value: Any) -> Iterator[dict[str, Any]]:
    """The tensors in the arguments of a call, in their order."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        source.budget.spend("items")
        if isinstance(here, list):
            waiting += reversed(here)
        elif isinstance(here, dict) and here.get("class_name") == "__keras_tensor__":
            yield _dict(here.get("config"))
        elif isinstance(here, dict):
            waiting += reversed(here.values())


def _histories(value: Any) -> list[tuple[str, int, int]]:
    """All [layer, call, output] in a value that nests them in any way, in order."""
    out = []
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            waiting += reversed(here.values())
        elif isinstance(here, list) and len(here) >= 3 and isinstance(here[0], str):
            call, port = (n if isinstance(n, int) and 0 <= n < 2**31 else 0 for n in here[1:3])
            out.append((here[0], call, port))
        elif isinstance(here, list):
            waiting += reversed(here)
    return out


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, type(None)))


def _short(value: Any) -> str:
    """A value of a configuration: plain ones as they are, objects by their class."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, dict):
        inner = _dict(value.get("config"))
        cls = value.get("class_name")
        named = inner.get("name") if cls == "DTypePolicy" else None
        text = str(named or cls or ", ".join(map(str, list(value)[:8])))
    else:
        try:
            text = json.dumps(value)
        except ValueError:  # an integer of thousands of digits
            text = "?"
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."


def _dtype(layer: dict[str, Any]) -> str:
    return _short(_dict(layer.get("config")).get("dtype") or "float32")


def _built(layer: dict[str, Any]) -> Any:
    """The shape that a layer was built for."""
    return _dict(layer.get("build_config")).get("input_shape")


def _input_type(layer: dict[str, Any]) -> str:
    config = _dict(layer.get("config"))
    return _type(config.get("batch_shape") or config.get("batch_input_shape"), _dtype(layer))


def _type(shape: Any, dtype: str) -> str:
    if not isinstance(shape, list) or not all(s is None or isinstance(s, int) for s in shape):
        return ""
    return f"{dtype}[{', '.join('?' if s is None else _short(s) for s in shape[:64])}]"


def _name(layer: dict[str, Any]) -> str:
    """A layer's name, which stands beside its configuration or in it."""
    return _short(layer.get("name") or _dict(layer.get("config")).get("name") or "")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
