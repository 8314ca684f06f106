"""How a recording reads as text, and how such text is read back without knowing any op.

The form is that of printed graphs (see `ir.printer`): one line for each node, types on the left,
operands and attributes in parentheses. Bodies follow under the name by which their node calls
them. The compiler has a parser of its own, which checks; this one only looks.
"""

from __future__ import annotations

import re

from glasshouse.formats.kinds import kind_of
from glasshouse.formats.printed import split_top
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphView, GraphWriter, Recording, RecordingBuilder
from glasshouse.record.schema import NodeRow

GENERATOR = "glasshouse text"
_HEADER = re.compile(r"(?:(\w+)\s*=\s*)?Graph\((.*)\)\s*\{$")
_RANGE = re.compile(r"(\w+) in (\d*\.\.\d*)$")
_CALL = re.compile(r"([^\s()=]+)\((.*)\)(?:\s*#.*)?$")
_PLAIN = re.compile(r'-?[\w.+]+|\[[\w\s.,\[\]"+-]*\]|"(?:[^"\\]|\\.)*"')
_SOURCES = ("Constant", "Variable")


# ------------------------------------------------------------------------------------- reading
def read(source: SourceFile) -> Recording:
    """The recording of a printed graph."""
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    reader: _Section | None = None
    sections: list[_Section] = []
    for number, raw in enumerate(source.text().splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        header = _HEADER.match(line)
        if header:
            reader = _Section(source, made, header[1] or "", header[2])
            sections.append(reader)
        elif line == "}":
            reader = None
        elif reader is None:
            raise source.error(f"line {number}: a statement outside a graph")
        else:
            reader.statement(line, number)
    if not sections:
        raise source.error("no printed graph")
    if reader is not None:
        raise source.error("ends inside a graph; it may be cut off")
    _link_bodies(made, sections)
    return made.finish()


class _Section:
    def __init__(self, source: SourceFile, made: RecordingBuilder, name: str, header: str) -> None:
        self.source = source
        self.name = name
        self.graph: GraphWriter = made.graph(name or source.stem)
        self.graph.stage("printed")
        self.values: dict[str, tuple[int, int]] = {}
        self.calls: list[tuple[int, str, str]] = []  # node, key, and a word that may name a body
        self.rows: list[NodeRow] = []
        self.inputs: list[int] = []
        for parameter in split_top(header):
            title, _, kind = parameter.partition(":")
            self.inputs.append(self._node("Input", [title.strip()], [kind.strip()], [], {}))
        self.graph.set_io(self.inputs, [])

    def statement(self, line: str, number: int) -> None:
        ranged = _RANGE.match(line)
        if ranged:
            self.graph.attrs[f"range {ranged[1]}"] = ranged[2]
            return
        if line.startswith("return"):
            names = split_top(line.removeprefix("return"))
            outputs = [self.values[n] for n in names if n in self.values]
            self.graph.set_io(self.inputs, outputs)
            return
        if line.startswith("update "):
            name, _, value = line.removeprefix("update ").partition("=")
            self.graph.attrs[f"update {name.strip()}"] = value.strip()
            return
        left, equals, right = line.partition(" = ")
        call = _CALL.match(right.strip()) if equals else None
        if call is None:
            raise self.source.error(f"line {number}: not a statement of a printed graph")
        names, types = [], []
        for part in split_top(left):
            name, _, kind = part.partition(":")
            names.append(name.strip())
            types.append(kind.strip())
        self._call(names, types, call[1], split_top(call[2]))

    def _call(self, names: list[str], types: list[str], op: str, arguments: list[str]) -> None:
        operands: list[tuple[int, int]] = []
        attrs: dict[str, str] = {}
        words = []
        if op in _SOURCES and arguments:
            types = [arguments.pop(0)]
        for place, argument in enumerate(arguments):
            key, equals, value = argument.partition("=")
            if not equals or not re.fullmatch(r"[\w.:]+", key.strip()):
                if argument in self.values:
                    operands.append(self.values[argument])
                else:
                    attrs[f"argument {place}"] = argument
                continue
            attrs[key.strip()] = value.strip()
            words.append((key.strip(), value.strip()))
        node = self._node(op, names, types, operands, attrs)
        self.calls += [(node, k, word) for k, word in words if re.fullmatch(r"graph_\d+", word)]

    def _node(
        self,
        op: str,
        names: list[str],
        types: list[str],
        operands: list[tuple[int, int]],
        attrs: dict[str, str],
    ) -> int:
        id = len(self.rows)
        kind = "source" if op in (*_SOURCES, "Input") else kind_of(op.rstrip("*"))
        self.rows.append(
            NodeRow(
                id, 0, -1, names[0], op, kind, [n for n, _ in operands], [p for _, p in operands],
                types, list(attrs), list(attrs.values()), [], output_names=names,
            )
        )  # fmt: skip
        for port, name in enumerate(names):
            self.values[name] = (id, port)
        return id


def _link_bodies(made: RecordingBuilder, sections: list[_Section]) -> None:
    index_of = {s.name: s.graph.index for s in sections if s.name}
    for section in sections:
        for node, key, word in section.calls:
            if word in index_of and index_of[word] != section.graph.index:
                row = section.rows[node]
                row.bodies.append(index_of[word])
                place = row.attr_keys.index(key)
                del row.attr_keys[place], row.attr_values[place]
                body = made.graphs[index_of[word]]
                if body.parent < 0 and body.index > section.graph.index:
                    body.parent = section.graph.index
        for row in section.rows:
            section.graph.add_node(row)


# ------------------------------------------------------------------------------------- writing
def write(recording: Recording) -> bytes:
    """The last stage of every graph."""
    lines: list[str] = []
    for view in recording.graphs:
        nested = view.info.parent >= 0
        lines += _print(view, f"graph_{view.index} = " if nested or view.index else "")
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def lost(recording: Recording) -> list[str]:
    """What the text cannot hold."""
    tables = {name.partition("/")[2] for name in recording.table_names()}
    out = ["groups"] if "groups" in tables else []
    out += ["names", "source lines"]
    if any(len(g.info.stages) > 1 for g in recording.graphs):
        out.append("stages before the last")
    names = ("kernels", "candidates", "times", "errors", "summaries", "data", "rewrites", "rejects")
    return out + [name for name in names if name in tables]


def _print(view: GraphView, prefix: str) -> list[str]:
    stage = view.stage(-1)
    nodes = list(stage.nodes)
    inputs = set(stage.info.inputs)
    names: dict[tuple[int, int], str] = {}
    counts = {"x": 0, "c": 0}
    for node in sorted(nodes, key=lambda n: n.id not in inputs):
        letter = "c" if _is_constant(node, inputs) else "x"
        for port in range(max(1, len(node.outputs))):
            number = counts[letter]
            counts[letter] += 1
            names[node.id, port] = f"{letter}_{number}" if number else letter
    given = [n for n in nodes if n.id in inputs]
    header = ", ".join(f"{names[n.id, 0]}: {_kind(n, 0)}" for n in given)
    lines = [f"{prefix}Graph({header}){{"]
    for key, value in view.info.attrs.items():
        if key.startswith("range "):
            lines.append(f"  {key.removeprefix('range ')} in {value}")
    lines += [f"  {_line(n, names, inputs)}" for n in nodes if n.id not in inputs]
    ends = zip(stage.info.output_nodes, stage.info.output_ports, strict=True)
    lines.append("  return " + ", ".join(names[v] for v in ends if v in names))
    return [*lines, "}"]


def _is_constant(node: NodeRow, inputs: set[int]) -> bool:
    is_source = node.kind == "source" and node.op in (
        "Constant",
        "Parameter",
        "Buffer",
        "Initializer",
    )
    return is_source and not node.input_nodes and node.id not in inputs


def _line(node: NodeRow, names: dict[tuple[int, int], str], inputs: set[int]) -> str:
    attrs = zip(node.attr_keys, node.attr_values, strict=True)
    parts = [f"{_key(k)}={_value(v)}" for k, v in attrs if "\n" not in v]
    if _is_constant(node, inputs):
        return f"{names[node.id, 0]} = Constant({', '.join([_kind(node, 0), *parts])})"
    operands = zip(node.input_nodes, node.input_ports, strict=True)
    read = [names.get(value, "_") for value in operands]
    parts += [f"body_{i}=graph_{b}" for i, b in enumerate(node.bodies)]
    count = max(1, len(node.outputs))
    left = ", ".join(f"{names[node.id, p]}: {_kind(node, p)}" for p in range(count))
    op = re.sub(r"[\s()=]+", "_", node.op) or "op"
    return f"{left} = {op}({', '.join(read + parts)})"


def _kind(node: NodeRow, port: int) -> str:
    said = node.outputs[port] if port < len(node.outputs) else ""
    return said if re.fullmatch(r"\w+\[[^\[\]=:]*\]", said) else "unknown[]"


def _key(key: str) -> str:
    return re.sub(r"\W+", "_", key).strip("_") or "attribute"


def _value(text: str) -> str:
    if len(text) < 1000 and _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
