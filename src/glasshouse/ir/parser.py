"""How printed text becomes a graph again: print, parse, print gives the same text.

Constants whose data is not printed come back without data: such a graph can be looked at,
verified and rewritten, and only running it needs the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from glasshouse.errors import GlasshouseError, ParseError
from glasshouse.ir.attrs import check_attrs
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import SymDim, symbol
from glasshouse.ir.dtype import to_storage
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.op import REGISTRY, op_named
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.ir.tokens import LineReader, Token
from glasshouse.ir.types import TensorType

_SYMBOL = re.compile(r"^(\w+) in (-?\d+)\.\.(-?\d*)$")
_BODY = re.compile(r"^(\w+) = (Graph\(.*)$")


def parse_graph(text: str) -> Graph:
    """The graph that a printed text describes."""
    lines = [(n, t.strip()) for n, t in enumerate(text.splitlines(), 1)]
    lines = [(n, t) for n, t in lines if t and not t.startswith("#")]
    if not lines or not lines[0][1].startswith("Graph("):
        raise ParseError("a printed graph begins with 'Graph('")
    sections: list[tuple[str, _Lines]] = [("", [])]
    for number, line in lines:
        ended = sections[-1][1] and sections[-1][1][-1][1] == "}"
        if ended and (body := _BODY.match(line)):
            sections.append((body[1], [(number, body[2])]))
        else:
            sections[-1][1].append((number, line))
    graphs: dict[str, Graph] = {}
    for name, part in reversed(sections):  # a body stands behind what calls it
        graphs[name] = _parse_section(part, graphs)
    return graphs[""]


_Lines = list[tuple[int, str]]


def _parse_section(lines: _Lines, graphs: Mapping[str, Graph]) -> Graph:
    if lines[-1][1] != "}":
        raise ParseError("a printed graph ends with '}'", where=f"line {lines[-1][0]}")
    body = lines[1:-1]
    symbols: dict[str, SymDim] = {}
    while body and (match := _SYMBOL.match(body[0][1])):
        name, low, high = match.groups()
        symbols[name] = symbol(name, int(low), int(high) if high else None)
        body = body[1:]
    reader = _Reader(symbols, graphs)
    for number, line in [lines[0], *body]:
        try:
            reader.read(line)
        except GlasshouseError as error:
            where = f"line {number}: {line[:100]}"
            raise ParseError(error.message, where, error.hint) from None
    if not reader.returned:
        raise ParseError("the graph has no 'return' line")
    return reader.builder.graph


class _Reader(LineReader):
    def __init__(self, symbols: dict[str, SymDim], graphs: Mapping[str, Graph]) -> None:
        super().__init__(symbols)
        self.graphs = graphs  # bodies that attributes may name
        self.builder = GraphBuilder()
        self.values: dict[str, Value] = {}
        self.returned = False

    def read(self, line: str) -> None:
        self.begin(line)
        first = self.tokens[0].text
        if first == "Graph":
            self._header()
        elif first == "return":
            self.at = 1
            outputs = [self._value()] if self.at < len(self.tokens) else []
            while self.accept(","):
                outputs.append(self._value())
            self.builder.finish(*outputs)
            self.returned = True
        elif first == "update":
            self.at = 1
            variable = self._value()
            self.expect("=")
            self.builder.update(variable, self._value())
        else:
            self._statement()
        self.end()

    def _header(self) -> None:
        self.at = 1
        self.expect("(")
        while not self.accept(")"):
            name = self.name()
            self.expect(":")
            type = self.type()
            self._define(name, self.builder.input(type.dtype, type.shape).value)
            self.accept(",")
        self.expect("{")

    def _statement(self) -> None:
        names, types = [self.name()], []
        while True:
            if self.accept(":"):
                types.append(self.type())
            if not self.accept(","):
                break
            names.append(self.name())
        self.expect("=")
        label = self.name()
        self.expect("(")
        if label in (CONSTANT.label, VARIABLE.label):
            self._define(names[0], self._source(label))
            return
        operands: list[Value] = []
        attrs: dict[str, Any] = {}
        while not self.accept(")"):
            if self.peek(1) == "=":
                key = self.name()
                self.expect("=")
                attrs[key] = self.attr()
            else:
                operands.append(self._value())
            self.accept(",")
        self._emit(label, names, types, operands, attrs)

    def _emit(
        self, label: str, names: list[str], types: list[TensorType],
        operands: list[Value], attrs: dict[str, Any],
    ) -> None:  # fmt: skip
        if label.endswith("*"):  # the inside of a fused node is not printed; its types are
            op, attrs = REGISTRY["fused"], {**attrs, "label": label, "types": tuple(types)}
        else:
            op = op_named(label)
        checked = check_attrs(op.name, op.attrs, attrs)
        inferred = op.types([v.type for v in operands], checked)
        if list(inferred) != types:
            raise ParseError(f"{label} gives {', '.join(map(str, inferred))}, not what is written")
        node = self.builder.emit(op, tuple(operands), checked, inferred)
        for name, value in zip(names, node.outputs, strict=True):
            self._define(name, value)

    def _source(self, label: str) -> Value:
        type = self.type()
        extra: dict[str, Any] = {"name": "", "data": None}
        while self.accept(","):
            key = self.name()
            self.expect("=")
            extra[key] = self.attr()
        self.expect(")")
        if "value" in extra:
            filled = np.full(_static(type), extra.pop("value"), type.dtype.carrier)
            extra["data"] = to_storage(filled, type.dtype)
        op = CONSTANT if label == CONSTANT.label else VARIABLE
        attrs = {"dtype": type.dtype, "shape": type.shape, **extra}
        return self.builder.emit(op, (), attrs, (type,)).output

    def word(self, token: Token) -> Any:
        return self.graphs[token.text] if token.text in self.graphs else super().word(token)

    def _value(self) -> Value:
        name = self.name()
        if name not in self.values:
            raise ParseError(f"there is no value {name!r} before this line")
        return self.values[name]

    def _define(self, name: str, value: Value) -> None:
        if name in self.values:
            raise ParseError(f"{name!r} is defined twice")
        self.values[name] = value


def _static(type: TensorType) -> tuple[int, ...]:
    if any(isinstance(d, SymDim) for d in type.shape):
        raise ParseError(f"a constant cannot have the symbolic shape {type}")
    return tuple(d for d in type.shape if isinstance(d, int))
