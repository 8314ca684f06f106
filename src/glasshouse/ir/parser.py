"""Decides how printed text becomes a graph again: print, parse, print gives the same text.

Constants whose data is not printed come back without data: such a graph can be looked at,
verified and rewritten, and only running it needs the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.errors import GlasshouseError, ParseError
from glasshouse.ir import dtype as dtypes
from glasshouse.ir.attrs import check_attrs
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import Dim, SymDim, dim_max, dim_min, floor_div, remainder, symbol
from glasshouse.ir.dtype import DType, to_storage
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.op import REGISTRY, op_named
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.ir.types import TensorType, tensor_type

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<number>-?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+(?!\.\.)|\d+(?=\.\.)))
    |(?P<name>-?inf\b|[A-Za-z_][\w.]*\*?)
    |(?P<mark>//|\.\.|[-+*%()\[\]{}:=,]))""",
    re.VERBOSE,
)
_SYMBOL = re.compile(r"^(\w+) in (-?\d+)\.\.(-?\d*)$")
_BODY = re.compile(r"^(\w+) = (Graph\(.*)$")
_MAX_NESTING = 100  # of brackets in one expression; printed graphs need fewer than ten


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
        except ParseError as error:
            raise ParseError(error.message, where=f"line {number}: {line[:100]}") from None
        except GlasshouseError as error:
            raise ParseError(error.message, where=f"line {number}: {line[:100]}") from None
    if not reader.returned:
        raise ParseError("the graph has no 'return' line")
    return reader.builder.graph


@dataclass
class _Token:
    kind: str
    text: str


class _Reader:
    def __init__(self, symbols: dict[str, SymDim], graphs: Mapping[str, Graph]) -> None:
        self.graphs = graphs  # bodies that attributes may name
        self.builder = GraphBuilder()
        self.values: dict[str, Value] = {}
        self.symbols = symbols
        self.returned = False
        self.tokens: list[_Token] = []
        self.at = 0

    def read(self, line: str) -> None:
        self.tokens, self.at = _tokens(line), 0
        first = self.tokens[0].text
        if first == "Graph":
            self._header()
        elif first == "return":
            self.at = 1
            outputs = [self._value()] if self.at < len(self.tokens) else []
            while self._accept(","):
                outputs.append(self._value())
            self.builder.finish(*outputs)
            self.returned = True
        elif first == "update":
            self.at = 1
            variable = self._value()
            self._expect("=")
            self.builder.update(variable, self._value())
        else:
            self._statement()
        if self.at != len(self.tokens):
            raise ParseError(f"unexpected {self.tokens[self.at].text!r}")

    def _header(self) -> None:
        self.at = 1
        self._expect("(")
        while not self._accept(")"):
            name = self._name()
            self._expect(":")
            type = self._type()
            self._define(name, self.builder.input(type.dtype, type.shape).value)
            self._accept(",")
        self._expect("{")

    def _statement(self) -> None:
        names, types = [self._name()], []
        while True:
            if self._accept(":"):
                types.append(self._type())
            if not self._accept(","):
                break
            names.append(self._name())
        self._expect("=")
        label = self._name()
        self._expect("(")
        if label in (CONSTANT.label, VARIABLE.label):
            self._define(names[0], self._source(label))
            return
        operands: list[Value] = []
        attrs: dict[str, Any] = {}
        while not self._accept(")"):
            if self._peek(1) == "=":
                key = self._name()
                self._expect("=")
                attrs[key] = self._attr()
            else:
                operands.append(self._value())
            self._accept(",")
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
        type = self._type()
        extra: dict[str, Any] = {"name": "", "data": None}
        while self._accept(","):
            key = self._name()
            self._expect("=")
            extra[key] = self._attr()
        self._expect(")")
        if "value" in extra:
            filled = np.full(_static(type), extra.pop("value"), type.dtype.carrier)
            extra["data"] = to_storage(filled, type.dtype)
        op = CONSTANT if label == CONSTANT.label else VARIABLE
        attrs = {"dtype": type.dtype, "shape": type.shape, **extra}
        return self.builder.emit(op, (), attrs, (type,)).output

    def _type(self) -> TensorType:
        name = self._name()
        if name not in dtypes.BY_NAME:
            raise ParseError(f"there is no element type {name!r}")
        self._expect("[")
        dims: list[Dim] = []
        while not self._accept("]"):
            dims.append(self._dim())
            self._accept(",")
        return tensor_type(dtypes.BY_NAME[name], dims)

    # ------------------------------------------------------- sizes: sums of products of factors
    def _dim(self, depth: int = 0) -> Dim:
        if depth > _MAX_NESTING:
            raise ParseError(f"brackets nested deeper than {_MAX_NESTING}")
        sign = -1 if self._accept("-") else 1
        total: Dim = sign * self._term(depth)
        while True:
            if self._accept("+"):
                total = total + self._term(depth)
            elif self._accept("-"):
                total = total - self._term(depth)
            elif (text := self._peek()).startswith("-") and text[1:].isdigit():
                total = total + self._term(depth)  # "n -1" when the sign stuck to the number
            else:
                return total

    def _term(self, depth: int) -> Dim:
        out = self._factor(depth)
        while True:
            if self._accept("*"):
                out = out * self._factor(depth)
            elif self._accept("//"):
                out = floor_div(out, self._factor(depth))
            elif self._accept("%"):
                out = remainder(out, self._factor(depth))
            else:
                return out

    def _factor(self, depth: int) -> Dim:
        if self._accept("("):
            inner = self._dim(depth + 1)
            self._expect(")")
            return inner
        token = self._next()
        if token.kind == "number":
            if not token.text.lstrip("-").isdigit():
                raise ParseError(f"a size is a whole number, not {token.text}")
            return int(token.text)
        if token.text in ("min", "max"):
            self._expect("(")
            left = self._dim(depth + 1)
            self._expect(",")
            right = self._dim(depth + 1)
            self._expect(")")
            return dim_min(left, right) if token.text == "min" else dim_max(left, right)
        name = token.text.rstrip("*")
        if token.kind != "name" or name not in self.symbols:
            raise ParseError(
                f"there is no size {token.text!r}", hint="ranges stand below the header"
            )
        if token.text.endswith("*"):  # "n*4" was read as the name "n*"
            self.at -= 1
            self.tokens[self.at : self.at + 1] = [_Token("name", name), _Token("mark", "*")]
            self.at += 1
        return self.symbols[name]

    def _attr(self, depth: int = 0) -> Any:
        if depth > _MAX_NESTING:
            raise ParseError(f"brackets nested deeper than {_MAX_NESTING}")
        token = self.tokens[self.at] if self.at < len(self.tokens) else _Token("end", "")
        if token.kind == "string":
            self.at += 1
            return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], token.text[1:-1])
        if token.text == "[":
            self.at += 1
            items: list[Any] = []
            while not self._accept("]"):
                items.append(self._attr(depth + 1))
                self._accept(",")
            return tuple(items)
        if token.kind == "number" and not token.text.lstrip("-").isdigit():
            self.at += 1
            return float(token.text)
        if token.text in dtypes.BY_NAME and self._peek(1) == "[":
            return self._type()
        word = self._word(token)
        if word is not _NO_WORD:
            self.at += 1
            return word
        return self._dim(depth + 1)

    def _word(self, token: _Token) -> Any:
        words: dict[str, Any] = {
            "True": True, "False": False, "None": None, "nan": float("nan"),
            "inf": float("inf"), "-inf": float("-inf"),
        }  # fmt: skip
        if token.text in words:
            return words[token.text]
        if token.text in self.graphs:
            return self.graphs[token.text]
        found: DType | None = dtypes.BY_NAME.get(token.text)
        return _NO_WORD if found is None else found

    # ------------------------------------------------------------------------------------- tokens
    def _peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def _next(self) -> _Token:
        if self.at >= len(self.tokens):
            raise ParseError("the line ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def _accept(self, text: str) -> bool:
        if self._peek() == text:
            self.at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise ParseError(f"expected {text!r}, found {self._peek() or 'the end of the line'!r}")

    def _name(self) -> str:
        token = self._next()
        if token.kind != "name":
            raise ParseError(f"expected a name, found {token.text!r}")
        return token.text

    def _value(self) -> Value:
        name = self._name()
        if name not in self.values:
            raise ParseError(f"there is no value {name!r} before this line")
        return self.values[name]

    def _define(self, name: str, value: Value) -> None:
        if name in self.values:
            raise ParseError(f"{name!r} is defined twice")
        self.values[name] = value


_NO_WORD = object()


def _static(type: TensorType) -> tuple[int, ...]:
    if any(isinstance(d, SymDim) for d in type.shape):
        raise ParseError(f"a constant cannot have the symbolic shape {type}")
    return tuple(d for d in type.shape if isinstance(d, int))


def _tokens(line: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(line):
        match = _TOKEN.match(line, at)
        if match is None:
            if not line[at:].strip():
                break
            raise ParseError(f"cannot read {line[at:].strip()[:20]!r}")
        kind = match.lastgroup or ""
        tokens.append(_Token(kind, match.group(kind)))
        at = match.end()
    return tokens
