"""How MLIR text becomes a recording: functions as graphs, regions as nested graphs.

Operands are the values that an op mentions before its types; a value of an outer region is shown
as captured. Locations give lines, and paths (`jit(f)/layer/dot`) that group the nodes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from glasshouse.formats.kinds import kind_of
from glasshouse.formats.mlir.op_text import (
    NAME,
    RESULTS,
    attributes,
    dictionaries_of,
    first_type,
    op_name,
    parameters,
    result_names,
    symbol,
    take_location,
    without_defined,
)
from glasshouse.formats.mlir.statements import MlirOp, Region, parse
from glasshouse.formats.mlir.types import result_types, signature
from glasshouse.formats.printed import split_top
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphWriter, Recording, RecordingBuilder

GENERATOR = "mlir"
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_FILE = re.compile(r'"([^"]+)":(\d{1,9})(?::\d+)?')
_NAMED = re.compile(r'loc\("([^"]*)"(?!:)')
_ALIAS = re.compile(r"#[\w$.]+")
_MODULES = ("module", "builtin.module")
_FUNCTIONS = ("func.func", "func", "stablehlo.func", "llvm.func")
_RETURNS = ("return", "func.return", "stablehlo.return", "mhlo.return")


def read(source: SourceFile) -> Recording:
    """The recording of an `.mlir` file."""
    top, aliases = parse(source)
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    reader = _MlirFile(source, made, aliases)
    loose: list[MlirOp] = []
    waiting = list(reversed(top.ops))
    while waiting:
        op = waiting.pop()
        name = op_name(op)
        if name in _MODULES:
            inner = [o for region in op.regions for o in region.ops]
            waiting += reversed(inner)
            if not made.title.strip() or symbol(op.text):
                made.title = symbol(op.text) or made.title
        elif name in _FUNCTIONS and op.regions:
            reader.functions[symbol(op.text)] = op
        elif "." in name or op.text[:1] in '%"':
            loose.append(op)
        elif name not in _FUNCTIONS:
            raise source.error(f"line {op.line}: not an op of MLIR")
    reader.run(loose)
    if not made.graphs:
        raise source.error("MLIR text without a function")
    return made.finish()


@dataclass
class _Waiting:
    graph: GraphWriter
    region: Region
    arguments: str
    outer: _Region | None


@dataclass
class _Region:
    """The values that a region can see: its own, then those around it."""

    values: dict[str, tuple[int, int]]
    outer: _Region | None

    def has(self, name: str) -> bool:
        scope: _Region | None = self
        while scope is not None:
            if name in scope.values:
                return True
            scope = scope.outer
        return False


class _MlirFile:
    def __init__(self, source: SourceFile, made: RecordingBuilder, aliases: dict[str, str]) -> None:
        self.source = source
        self.made = made
        self.aliases = aliases
        self.functions: dict[str, MlirOp] = {}
        self.graph_of: dict[str, int] = {}

    def run(self, loose: list[MlirOp]) -> None:
        waiting: list[_Waiting] = []
        if loose:
            graph = self.made.graph(self.source.stem)
            waiting.append(_Waiting(graph, Region(ops=loose), "", None))
        # `main` first: it is what a person wants to see.
        order = sorted(self.functions, key=lambda name: name != "main")
        for name in order:
            op = self.functions[name]
            graph = self.made.graph(name or "function")
            self.graph_of[name] = graph.index
            region = op.regions[0]
            waiting.append(_Waiting(graph, region, region.arguments or parameters(op.text), None))
        waiting.reverse()
        while waiting:
            todo = waiting.pop()
            waiting += _Body(self, todo).read()

    def location(self, text: str) -> tuple[str, int, str]:
        """File, line and name of a printed location, through its aliases."""
        file, line, name = "", 0, ""
        for _ in range(8):  # aliases of aliases; real files have three
            named = _NAMED.search(text)
            if named and not name:
                name = named[1]
            place = _FILE.search(text)
            if place and not file:
                file, line = place[1], int(place[2])
            alias = _ALIAS.search(text)
            if not alias or (file and name) or alias[0] not in self.aliases:
                break
            text = self.aliases[alias[0]]
        return file, line, name


class _Body:
    """One region as a graph."""

    def __init__(self, owner: _MlirFile, todo: _Waiting) -> None:
        self.owner = owner
        self.graph = todo.graph
        self.region = todo.region
        self.arguments = todo.arguments
        self.outer = todo.outer
        self.producer: dict[str, tuple[int, int]] = {}

    def read(self) -> list[_Waiting]:
        self.graph.stage("module")
        inputs = []
        for argument in split_top(self.arguments):
            name, _, rest = argument.partition(":")
            if name.strip().startswith("%"):
                inputs.append(self._source("Input", name.strip(), first_type(rest)))
        # Results of the whole region are known first: a later op may be read by an earlier one.
        later: list[_Waiting] = []
        outputs: list[tuple[int, int]] = []
        for op in self.region.ops:
            later += self._op(op, outputs)
        self.graph.set_io(inputs, outputs)
        return later

    def _source(self, op: str, name: str, kind: str) -> int:
        node = self.graph.node(op, name=name, kind="source", outputs=[kind], output_names=[name])
        self.producer[name] = (node, 0)
        return node

    def _operand(self, name: str) -> tuple[int, int]:
        base, _, port = name.partition("#")
        found = self.producer.get(base)
        if found is None:
            if self.outer is not None and self.outer.has(base):
                self._source("Captured", base, "")
                return self.producer[base]
            return (-1, 0)
        return (found[0], int(port)) if port and len(port) < 7 else found

    def _op(self, op: MlirOp, outputs: list[tuple[int, int]]) -> list[_Waiting]:
        text, location = take_location(op.text)
        results = RESULTS.match(text)
        rest = text[results.end() :] if results else text
        name = op_name(op)
        body, types = signature(rest)
        found = NAME.match(body)
        body = body[found.end() :] if found else body
        dictionaries, plain = dictionaries_of(body)
        operands = [self._operand(v) for v in _VALUE.findall(without_defined(plain))]
        if name in _RETURNS:
            outputs += operands
            return []
        names = result_names(results[1] if results else "")
        file, line, path = self.owner.location(location)
        steps = [s for s in path.split("/")[:-1] if s] if "/" in path else []
        bodies, later = self._regions(op, name, types)
        attrs = attributes(dictionaries, plain)
        called = symbol(attrs.get("callee", ""))
        if called in self.owner.graph_of:
            bodies.append(self.owner.graph_of[called])
        node = self.graph.node(
            name or "op",
            name=names[0] if names else "",
            kind=kind_of(name.rpartition(".")[2] if name.count(".") == 1 else name),
            inputs=operands,
            outputs=result_types(types, len(names)),
            attrs=attrs | ({"location": path} if path else {}),
            groups=[self.graph.group_path("module", steps)],
            file=file,
            line=line,
            bodies=bodies,
            output_names=names,
        )
        for port, result in enumerate(names):
            base, _, part = result.partition("#")
            if not part:
                self.producer[base] = (node, port)
            elif part == "0":
                self.producer[base] = (node, 0)
        return later

    def _regions(self, op: MlirOp, name: str, types: str) -> tuple[list[int], list[_Waiting]]:
        bodies, later = [], []
        visible = _Region(self.producer, self.outer)
        defined = re.findall(r"(%[\w$.-]+)\s*=", signature(op.text)[0].partition("(")[2])
        # `while(%i = %0)` names the arguments of its regions once; they have its results' types.
        kinds = split_top(types) if defined else []
        if len(kinds) != len(defined):
            kinds = [""] * len(defined)
        named = ", ".join(f"{d}: {k}" for d, k in zip(defined, kinds, strict=True))
        for region in op.regions:
            if not region.ops:
                continue
            graph = self.graph.owner.graph(name, parent=self.graph.index)
            arguments = region.arguments or named
            bodies.append(graph.index)
            later.append(_Waiting(graph, region, arguments, visible))
        return bodies, later
