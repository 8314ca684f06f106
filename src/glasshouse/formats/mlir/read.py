"""Decides how MLIR text becomes a recording: functions as graphs, regions as nested graphs.

Operands are the values that an op mentions before its types; a value of an outer region is shown
as captured. Locations give lines, and paths (`jit(f)/layer/dot`) that group the nodes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from glasshouse.formats.kinds import kind_of
from glasshouse.formats.mlir.statements import Op, Region, parse
from glasshouse.formats.mlir.types import readable_type, result_types, signature
from glasshouse.formats.printed import end_of_string, split_top
from glasshouse.formats.source import Source
from glasshouse.record import GraphBuilder, Recording, RecordingBuilder

GENERATOR = "mlir"
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULT = r"%[\w$.-]+(?::\d+)?"
_RESULTS = re.compile(rf"({_RESULT}(?:\s*,\s*{_RESULT})*)\s*=\s*")
_NAME = re.compile(r'"([^"]+)"|([A-Za-z_][\w$.-]*)')
_SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w$.-]+))')
_FILE = re.compile(r'"([^"]+)":(\d{1,9})(?::\d+)?')
_NAMED = re.compile(r'loc\("([^"]*)"(?!:)')
_ALIAS = re.compile(r"#[\w$.]+")
_MODULES = ("module", "builtin.module")
_FUNCTIONS = ("func.func", "func", "stablehlo.func", "llvm.func")
_RETURNS = ("return", "func.return", "stablehlo.return", "mhlo.return")
MAX_ATTR = 2000
MAX_RESULTS = 10_000


def read(source: Source) -> Recording:
    """The recording of an `.mlir` file."""
    top, aliases = parse(source)
    made = RecordingBuilder(source.stem, GENERATOR)
    reader = _File(source, made, aliases)
    loose: list[Op] = []
    waiting = list(reversed(top.ops))
    while waiting:
        op = waiting.pop()
        name = op_name(op)
        if name in _MODULES:
            inner = [o for region in op.regions for o in region.ops]
            waiting += reversed(inner)
            if not made.title.strip() or _symbol(op.text):
                made.title = _symbol(op.text) or made.title
        elif name in _FUNCTIONS and op.regions:
            reader.functions[_symbol(op.text)] = op
        elif "." in name or op.text[:1] in '%"':
            loose.append(op)
        elif name not in _FUNCTIONS:
            raise source.error(f"line {op.line}: not an op of MLIR")
    reader.run(loose)
    if not made.graphs:
        raise source.error("MLIR text without a function")
    return made.finish()


def op_name(op: Op) -> str:
    """The name of an op, behind its results."""
    results = _RESULTS.match(op.text)
    found = _NAME.match(op.text, results.end() if results else 0)
    return (found[1] or found[2]) if found else ""


def _symbol(text: str) -> str:
    found = _SYMBOL.search(text) or re.search(r'sym_name\s*=\s*"([^"]*)"', text)
    return next((g for g in found.groups() if g), "") if found else ""


@dataclass
class _Waiting:
    graph: GraphBuilder
    region: Region
    arguments: str
    outer: _Scope | None


@dataclass
class _Scope:
    """The values that a region can see: its own, then those around it."""

    values: dict[str, tuple[int, int]]
    outer: _Scope | None

    def has(self, name: str) -> bool:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.values:
                return True
            scope = scope.outer
        return False


class _File:
    def __init__(self, source: Source, made: RecordingBuilder, aliases: dict[str, str]) -> None:
        self.source = source
        self.made = made
        self.aliases = aliases
        self.functions: dict[str, Op] = {}
        self.graph_of: dict[str, int] = {}

    def run(self, loose: list[Op]) -> None:
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
            waiting.append(_Waiting(graph, region, region.arguments or _parameters(op.text), None))
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

    def __init__(self, owner: _File, todo: _Waiting) -> None:
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
                inputs.append(self._source("Input", name.strip(), _first_type(rest)))
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

    def _op(self, op: Op, outputs: list[tuple[int, int]]) -> list[_Waiting]:
        text, location = _take_location(op.text)
        results = _RESULTS.match(text)
        rest = text[results.end() :] if results else text
        name = op_name(op)
        body, types = signature(rest)
        found = _NAME.match(body)
        body = body[found.end() :] if found else body
        dictionaries, plain = _dictionaries(body)
        operands = [self._operand(v) for v in _VALUE.findall(_without_defined(plain))]
        if name in _RETURNS:
            outputs += operands
            return []
        names = _result_names(results[1] if results else "")
        file, line, path = self.owner.location(location)
        steps = [s for s in path.split("/")[:-1] if s] if "/" in path else []
        bodies, later = self._regions(op, name, types)
        attrs = _attributes(dictionaries, plain)
        called = _symbol(attrs.get("callee", ""))
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

    def _regions(self, op: Op, name: str, types: str) -> tuple[list[int], list[_Waiting]]:
        bodies, later = [], []
        visible = _Scope(self.producer, self.outer)
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


def _parameters(text: str) -> str:
    """The parameter list of a printed function."""
    start = text.find("(")
    if start < 0:
        return ""
    depth, i = 0, start
    while i < len(text):
        if text[i] == '"':
            i = end_of_string(text, i)
            continue
        if text.startswith("->", i):
            i += 2
            continue
        depth += (text[i] in "([{<") - (text[i] in ")]}>")
        if depth == 0:
            return text[start + 1 : i]
        i += 1
    return ""


def _first_type(text: str) -> str:
    """The type at the start of "tensor<4xf32> {attrs} loc(...)"."""
    text = text.strip()
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "<([") - (c in ">)]")
        if depth == 0 and c in " {" and i:
            return readable_type(text[:i].strip())
    return readable_type(text)


def _take_location(text: str) -> tuple[str, str]:
    """An op's text without the location at its end, and the location."""
    place = text.rfind(" loc(")
    if place < 0 or not text.endswith(")"):
        return text, ""
    return text[:place].rstrip(), text[place + 1 :]


def _result_names(text: str) -> list[str]:
    """ "%0:2" as ["%0#0", "%0#1"], "%a, %b" as they are."""
    out: list[str] = []
    for part in text.split(","):
        name, _, count = part.strip().partition(":")
        if count.isdigit() and len(count) < 6:
            out += [f"{name}#{i}" for i in range(min(int(count), MAX_RESULTS))]
        elif name:
            out.append(name)
    return out[:MAX_RESULTS]


def _dictionaries(text: str) -> tuple[list[str], str]:
    """The attribute dictionaries of an op, and its text without them."""
    found, plain, depth, start, i = [], [], 0, 0, 0
    while i < len(text):
        c = text[i]
        if c == '"':
            end = end_of_string(text, i)
            if not depth:
                plain.append(text[i:end])
            i = end
            continue
        if c == "{":
            if not depth:
                start = i
            depth += 1
        elif c == "}" and depth:
            depth -= 1
            if not depth:
                found.append(text[start + 1 : i])
        elif not depth:
            plain.append(c)
        i += 1
    return found, "".join(plain)


def _without_defined(text: str) -> str:
    """`(%iter = %0)` defines %iter and reads %0: only what is read is left."""
    return re.sub(r"%[\w$.-]+\s*=\s*(?=%)", "", text)


def _attributes(dictionaries: list[str], plain: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for text in dictionaries:
        for entry in split_top(text):
            key, equals, value = entry.partition("=")
            out[key.strip().strip('"')] = _cut(value.strip() if equals else "unit")
    # What the pretty form spells without braces: `dims = [0]`, `dense<1.0>`, `@callee`.
    modes = []
    for entry in split_top(plain):
        found = re.search(r"\b([A-Za-z_]\w*)\s*=\s*([^%=]+)$", entry)
        if found:
            out.setdefault(found[1], _cut(found[2].strip()))
        elif re.fullmatch(r"[A-Z][A-Z_0-9]*", entry):
            modes.append(entry)
    if modes:
        out["mode"] = ", ".join(modes)
    applied = re.search(r"\bapplies ([\w.]+)", plain)
    if applied:
        out["applies"] = applied[1]
    constant = re.search(r"dense<|array<|dense_resource<", plain)
    if constant:
        out.setdefault("value", _cut(plain[constant.start() :].strip()))
    symbol = _SYMBOL.search(plain)
    if symbol:
        out.setdefault("callee", symbol[0])
    return out


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ATTR else f"{text[:MAX_ATTR]} ... ({len(text)} characters)"
