"""Reads printed text token by token: names, numbers, sizes, types and attribute values.

Graphs (`ir.parser`) and kernels (`lower.kernel.parser`) are read with it, line by line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from glasshouse.errors import ParseError
from glasshouse.ir import dtype as dtypes
from glasshouse.ir.dim import Dim, SymDim, dim_max, dim_min, floor_div, remainder
from glasshouse.ir.dtype import DType
from glasshouse.ir.types import TensorType, tensor_type

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<number>-?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+(?!\.\.)|\d+(?=\.\.)))
    |(?P<name>-?inf\b|[A-Za-z_][\w.]*\*?)
    |(?P<mark>//|\.\.|->|<=|>=|[-+*%()\[\]{}:=,<>@]))""",
    re.VERBOSE,
)
MAX_NESTING = 100  # of brackets in one expression; printed text needs fewer than ten
NO_WORD = object()


@dataclass
class Token:
    kind: str
    text: str


class LineReader:
    """A line as tokens, and how far it has been read; `symbols` are the sizes that it may name."""

    def __init__(self, symbols: dict[str, SymDim]) -> None:
        self.symbols = symbols
        self.tokens: list[Token] = []
        self.at = 0

    def begin(self, line: str) -> None:
        """Go on with another line."""
        self.tokens, self.at = tokens_of(line), 0

    def end(self) -> None:
        """Nothing may be left of the line."""
        if self.at != len(self.tokens):
            raise ParseError(f"unexpected {self.tokens[self.at].text!r}")

    def type(self) -> TensorType:
        name = self.name()
        if name not in dtypes.BY_NAME:
            raise ParseError(f"there is no element type {name!r}")
        self.expect("[")
        dims: list[Dim] = []
        while not self.accept("]"):
            dims.append(self.dim())
            self.accept(",")
        return tensor_type(dtypes.BY_NAME[name], dims)

    # ------------------------------------------------------- sizes: sums of products of factors
    def dim(self, depth: int = 0) -> Dim:
        if depth > MAX_NESTING:
            raise ParseError(f"brackets nested deeper than {MAX_NESTING}")
        sign = -1 if self.accept("-") else 1
        total: Dim = sign * self.term(depth)
        while True:
            if self.accept("+"):
                total = total + self.term(depth)
            elif self.accept("-"):
                total = total - self.term(depth)
            elif (text := self.peek()).startswith("-") and text[1:].isdigit():
                total = total + self.term(depth)  # "n -1" when the sign stuck to the number
            else:
                return total

    def term(self, depth: int) -> Dim:
        out = self.factor(depth)
        while True:
            if self.accept("*"):
                out = out * self.factor(depth)
            elif self.accept("//"):
                out = floor_div(out, self.factor(depth))
            elif self.accept("%"):
                out = remainder(out, self.factor(depth))
            else:
                return out

    def factor(self, depth: int) -> Dim:
        if self.accept("("):
            inner = self.dim(depth + 1)
            self.expect(")")
            return inner
        token = self.next()
        if token.kind == "number":
            if not token.text.lstrip("-").isdigit():
                raise ParseError(f"a size is a whole number, not {token.text}")
            return int(token.text)
        if token.text in ("min", "max"):
            self.expect("(")
            left = self.dim(depth + 1)
            self.expect(",")
            right = self.dim(depth + 1)
            self.expect(")")
            return dim_min(left, right) if token.text == "min" else dim_max(left, right)
        name = token.text.rstrip("*")
        if token.kind != "name" or name not in self.symbols:
            raise ParseError(
                f"there is no size {token.text!r}", hint="ranges stand below the header"
            )
        if token.text.endswith("*"):  # "n*4" was read as the name "n*"
            self.at -= 1
            self.tokens[self.at : self.at + 1] = [Token("name", name), Token("mark", "*")]
            self.at += 1
        return self.symbols[name]

    # ------------------------------------------------------------------------------ attributes
    def attr(self, depth: int = 0) -> Any:
        if depth > MAX_NESTING:
            raise ParseError(f"brackets nested deeper than {MAX_NESTING}")
        token = self.tokens[self.at] if self.at < len(self.tokens) else Token("end", "")
        if token.kind == "string":
            self.at += 1
            return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], token.text[1:-1])
        if token.text == "[":
            self.at += 1
            items: list[Any] = []
            while not self.accept("]"):
                items.append(self.attr(depth + 1))
                self.accept(",")
            return tuple(items)
        if token.kind == "number" and not token.text.lstrip("-").isdigit():
            self.at += 1
            return float(token.text)
        if token.text in dtypes.BY_NAME and self.peek(1) == "[":
            return self.type()
        word = self.word(token)
        if word is not NO_WORD:
            self.at += 1
            return word
        return self.dim(depth + 1)

    def word(self, token: Token) -> Any:
        words: dict[str, Any] = {
            "True": True, "False": False, "None": None, "nan": float("nan"),
            "inf": float("inf"), "-inf": float("-inf"),
        }  # fmt: skip
        if token.text in words:
            return words[token.text]
        found: DType | None = dtypes.BY_NAME.get(token.text)
        return NO_WORD if found is None else found

    # ------------------------------------------------------------------------------------- tokens
    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def next(self) -> Token:
        if self.at >= len(self.tokens):
            raise ParseError("the line ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, text: str) -> bool:
        if self.peek() == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise ParseError(f"expected {text!r}, found {self.peek() or 'the end of the line'!r}")

    def name(self) -> str:
        token = self.next()
        if token.kind != "name":
            raise ParseError(f"expected a name, found {token.text!r}")
        return token.text


def tokens_of(line: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(line):
        match = _TOKEN.match(line, at)
        if match is None:
            if not line[at:].strip():
                break
            raise ParseError(f"cannot read {line[at:].strip()[:20]!r}")
        kind = match.lastgroup or ""
        tokens.append(Token(kind, match.group(kind)))
        at = match.end()
    return tokens
