"""How Hidet's JSON becomes a recording: one file a stage, a folder the stages of a run.

Inputs and constants, which the file mentions only as arguments, become nodes of their own; edges
come from equal argument names. The inside of a fused node becomes a nested graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glasshouse.formats.hidet.inside import Inside, parse_graph, parse_task
from glasshouse.formats.json_stream import read_json
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.snapshots import SnapNode, Snapshot
from glasshouse.formats.source import SourceFile
from glasshouse.formats.stage_writer import StageWriter
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.budget import Budget

GENERATOR = "hidet flow graph"
MAX_FILES = 1000
_NUMBERED = re.compile(r"(\d+)_(.+)\.json", re.IGNORECASE)


def is_hidet(value: Any) -> bool:
    """Parsed JSON that looks like a flow graph."""
    if not isinstance(value, dict) or not isinstance(value.get("graphs"), list):
        return False
    if value.get("source") == "Hidet" or value.get("format") == "netron":
        return True
    return any(
        isinstance(g, dict) and isinstance(g.get("inputs"), list) and "nodes" in g
        for g in value["graphs"]
    )


def read(source: SourceFile) -> Recording:
    """The recording of one file."""
    return _record(source.stem, [(source.stem, source)], source.budget)


def folder_stages(source: SourceFile) -> list[tuple[str, Path]]:
    """The JSON files of a folder in the order of the passes: unnumbered ones (as traced) first."""
    assert source.path is not None
    found = []
    for path in sorted(source.path.iterdir())[: 10 * MAX_FILES]:
        if path.suffix.lower() == ".json" and path.is_file():
            numbered = _NUMBERED.fullmatch(path.name)
            number = int(numbered[1][:9]) if numbered else -1
            found.append((number, numbered[2] if numbered else path.stem, path))
    found.sort(key=lambda f: (f[0], f[1]))
    return [(name, path) for _, name, path in found[:MAX_FILES]]


def read_folder(source: SourceFile) -> Recording:
    """The recording of a folder of `N_Pass.json` files, each a stage."""
    found = folder_stages(source)
    if not found:
        raise source.error("a folder without JSON files of a flow graph")
    budget = Budget(source.name, sum(path.stat().st_size for _, path in found))
    stages = [(name, SourceFile(path, budget=budget)) for name, path in found]
    return _record(Path(source.name).name, stages, budget)


def _record(title: str, files: list[tuple[str, SourceFile]], budget: Budget) -> Recording:
    made = RecordingBuilder(title, GENERATOR, budget)
    graph = made.graph(title)
    writer = StageWriter(graph)
    for number, (name, source) in enumerate(files):
        value = read_json(source)
        if not is_hidet(value):
            raise source.error("JSON, but not a flow graph of Hidet")
        graphs = [g for g in value["graphs"] if isinstance(g, dict)]
        if not graphs:
            raise source.error("a flow graph file without a graph")
        snapshot = _HidetReader(source, made, graph.index).snapshot(graphs[0])
        writer.add(snapshot, name, pass_name=name if number else "")
        if not number:
            graph.attrs.update(
                {k: v for k, v in value.items() if isinstance(v, str) and v and k != "graphs"}
            )
            if isinstance(graphs[0].get("name"), str) and graphs[0]["name"]:
                graph.attrs["name"] = graphs[0]["name"]
        for extra in graphs[1:]:
            other = made.graph(str(extra.get("name", "")) or f"graph {len(made.graphs)}")
            StageWriter(other).add(_HidetReader(source, made, other.index).snapshot(extra), name)
    return made.finish()


class _HidetReader:
    """One graph of one file."""

    def __init__(self, source: SourceFile, made: RecordingBuilder, graph: int) -> None:
        self.source = source
        self.made = made
        self.graph = graph
        self.nodes: list[SnapNode] = []
        self.producer: dict[str, tuple[int, int]] = {}

    def snapshot(self, graph: dict[str, Any]) -> Snapshot:
        for parameter in _list(graph, "inputs"):
            for argument in _list(parameter, "arguments"):
                self._leaf(argument, "Input", self._name(argument))
        raw_nodes = _list(graph, "nodes")
        # Producers first: every result is known before anybody asks for it.
        first = len(self.nodes)
        constants: dict[str, dict[str, Any]] = {}
        for raw in raw_nodes:
            for argument in self._arguments(raw, "inputs"):
                name = self._name(argument)
                if "initializer" in argument and name not in self.producer:
                    constants.setdefault(name, argument)
        for name, argument in constants.items():
            if name not in self.producer:
                self._leaf(argument, "Constant", "")
        first = len(self.nodes)
        for i, raw in enumerate(raw_nodes):
            for port, argument in enumerate(self._arguments(raw, "outputs")):
                self.producer.setdefault(self._name(argument), (first + i, port))
        for raw in raw_nodes:
            self.nodes.append(self._node(raw))
        outputs = [
            self.producer.get(self._name(argument), (-1, 0))
            for parameter in _list(graph, "outputs")
            for argument in _list(parameter, "arguments")
        ]
        return Snapshot(self.nodes, outputs)

    def _leaf(self, argument: dict[str, Any], op: str, fixed: str) -> None:
        name = self._name(argument)
        attrs = {}
        initializer = argument.get("initializer")
        if isinstance(initializer, dict):
            attrs = {str(k): _text(v) for k, v in initializer.items()}
        self.producer[name] = (len(self.nodes), 0)
        self.nodes.append(SnapNode(name, op, "source", [], [type_of(argument)], attrs, fixed=fixed))

    def _node(self, raw: dict[str, Any]) -> SnapNode:
        kind = raw.get("type")
        op = _text(kind.get("name", "")) if isinstance(kind, dict) else _text(kind)
        attrs = {}
        for attribute in _list(raw, "attributes"):
            attrs[_text(attribute.get("name", ""))] = _text(attribute.get("value"))
        inside = self._inside(raw, attrs)
        if isinstance(kind, dict) and kind.get("category"):
            attrs["category"] = _text(kind["category"])
        lines = raw.get("description")
        if lines:
            attrs["description"] = (
                "\n".join(map(_text, lines)) if isinstance(lines, list) else _text(lines)
            )
        inputs, names = [], []
        for parameter in _list(raw, "inputs"):
            for argument in _list(parameter, "arguments"):
                inputs.append(self.producer.get(self._name(argument), (-1, 0)))
                names.append(_text(parameter.get("name", "")))
        plain = all(name == str(i) for i, name in enumerate(names))
        outputs = list(self._arguments(raw, "outputs"))
        name = _text(raw.get("name", ""))
        results = [self._name(a) for a in outputs]
        usual = [f"{name}:{i}" for i in range(len(results))]
        return SnapNode(
            name,
            op or "op",
            kind_of(op),
            inputs,
            [type_of(a) for a in outputs],
            attrs,
            [] if results == usual else results,
            [] if plain else names,
            _fused_ops(attrs, inside),
            [self._body(name, inside)] if inside else [],
            quiet=("description", "fused_graph"),
        )

    def _inside(self, raw: dict[str, Any], attrs: dict[str, str]) -> Inside | None:
        if "fused_graph" in attrs:
            return parse_graph(attrs["fused_graph"])
        lines = raw.get("description")
        if "fusion" in attrs and isinstance(lines, list):
            return parse_task([_text(line) for line in lines])
        return None

    def _body(self, name: str, inside: Inside) -> int:
        body = self.made.graph(name, parent=self.graph)
        body.stage("inside")
        ids: dict[str, int] = {}
        for parameter, kind in inside.parameters:
            ids[parameter] = body.node("Input", name=parameter, kind="source", outputs=[kind])
        for op in inside.ops:
            ids[op.result] = body.node(
                op.op,
                name=op.result,
                kind=kind_of(op.op),
                inputs=[ids[i] for i in op.inputs],
                outputs=[op.type],
                attrs=op.attrs,
            )
        results = [(ids[r], 0) for r in inside.results if r in ids]
        body.set_io([ids[p] for p, _ in inside.parameters], results)
        return body.index

    def _arguments(self, raw: dict[str, Any], which: str) -> Iterator[dict[str, Any]]:
        for parameter in _list(raw, which):
            yield from _list(parameter, "arguments")

    def _name(self, argument: dict[str, Any]) -> str:
        return _text(argument.get("name", ""))


def _fused_ops(attrs: dict[str, str], inside: Inside | None) -> list[str]:
    if "fusion" in attrs:
        return attrs["fusion"].split()
    return [op.op for op in inside.ops] if inside else []


def type_of(argument: dict[str, Any]) -> str:
    """ "float32[1, 128]" whatever the generation writes."""
    kind = argument.get("type")
    if not isinstance(kind, dict):
        return _text(kind)
    shape = kind.get("shape")
    dimensions = shape.get("dimensions") if isinstance(shape, dict) else None
    if not isinstance(dimensions, list):
        return _text(kind.get("string", ""))
    return f"{_text(kind.get('dataType', ''))}[{', '.join(map(_text, dimensions))}]"


def _list(value: Any, key: str) -> list[dict[str, Any]]:
    found = value.get(key) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else str(value)
