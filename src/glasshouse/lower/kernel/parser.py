"""Printed kernel IR becomes a kernel again: print, parse, print gives the same text."""

from __future__ import annotations

import re
from typing import Any

from glasshouse.errors import GlasshouseError, ParseError
from glasshouse.ir import dtype as dtypes
from glasshouse.ir.dim import Dim, symbol
from glasshouse.ir.dtype import DType, int64
from glasshouse.ir.tokens import MAX_NESTING, LineReader
from glasshouse.lower.choice import Problem
from glasshouse.lower.kernel.expr import (
    COMPARISONS,
    Apply,
    Attrs,
    Choose,
    Compare,
    Expr,
    Load,
    Number,
    Position,
    Var,
)
from glasshouse.lower.kernel.index import DERIVATIONS, Checked, Derived, Index, Loop, of
from glasshouse.lower.kernel.kernel import OPERAND, OUTPUT, TEMPORARY, Buffer, Kernel
from glasshouse.lower.kernel.statement import (
    Fold,
    For,
    Form,
    Let,
    Operand,
    Ops,
    Parts,
    Role,
    Scratch,
    Statement,
    Store,
    Tile,
)

_SYMBOL = re.compile(r"^symbol (\S+) in (-?\d+)\.\.(-?\d*)$")


def parse_kernel(text: str) -> Kernel:
    """The kernel that a printed text describes."""
    lines = [(n, t.strip()) for n, t in enumerate(text.splitlines(), 1)]
    reader = _KernelReader([(n, t) for n, t in lines if t and not t.startswith("#")])
    try:
        return reader.kernel()
    except ParseError as error:
        raise ParseError(f"line {reader.number}: {error.message}", hint=error.hint) from None
    except (GlasshouseError, KeyError, ValueError, IndexError) as error:
        raise ParseError(f"line {reader.number}: {error}") from None


class _KernelReader(LineReader):
    def __init__(self, lines: list[tuple[int, str]]) -> None:
        super().__init__({})
        self.lines = lines
        self.number = 0
        self.buffers: dict[str, Buffer] = {}
        self.loops: dict[str, Loop] = {}
        self.types: dict[str, DType] = {}  # of variables

    # ------------------------------------------------------------------------------------- lines
    def line(self) -> str:
        """Begin the next line, and give its first word."""
        if not self.lines:
            raise ParseError("the text ends too early")
        self.number, text = self.lines.pop(0)
        self.begin(text)
        return self.peek()

    def kernel(self) -> Kernel:
        while self.lines and (found := _SYMBOL.match(self.lines[0][1])):
            self.lines.pop(0)
            high = int(found[3]) if found[3] else None
            self.symbols[found[1]] = symbol(found[1], int(found[2]), high)
        self.line()
        self.expect("kernel")
        name = self.name()
        operands = self._buffers(OPERAND)
        self.expect("->")
        outputs = self._buffers(OUTPUT)
        self.expect("{")
        self.end()
        ops: tuple[str, ...] = ()
        temporaries: list[Buffer] = []
        workspace: Dim = 0
        variant = "loops"
        forms: list[Form] = []
        body: list[Statement] = []
        while (first := self.line()) != "}":
            if first in ("ops", "temporary", "workspace", "variant", "form"):
                self.at = 1
                match first:
                    case "ops":
                        ops = self._names()
                    case "temporary":
                        temporaries.append(self._buffer(TEMPORARY))
                    case "workspace":
                        workspace = self.dim()
                    case "variant":
                        variant = self.name()
                    case "form":
                        forms.append(self._form())
                self.end()
            else:
                body.append(self._statement(first))
        if self.lines:
            raise ParseError("there is text behind the kernel")
        buffers = (*operands, *outputs, *temporaries)
        return Kernel(name, buffers, tuple(body), ops, variant, workspace, tuple(forms))

    def _buffers(self, role: str) -> list[Buffer]:
        self.expect("(")
        out: list[Buffer] = []
        while not self.accept(")"):
            out.append(self._buffer(role))
            self.accept(",")
        return out

    def _buffer(self, role: str) -> Buffer:
        name = self.name()
        self.expect(":")
        dtype = self._dtype()
        self.expect("[")
        size = self.dim()
        self.expect("]")
        constant = bool(self.accept("constant"))
        self.buffers[name] = made = Buffer(name, dtype, size, role, constant)
        return made

    def _names(self) -> tuple[str, ...]:
        out = [self.name()]
        while self.accept(","):
            out.append(self.name())
        return tuple(out)

    # -------------------------------------------------------------------------------- statements
    def _block(self) -> tuple[Statement, ...]:
        """Statements up to the line that closes them, which has been begun then."""
        out: list[Statement] = []
        while (first := self.line()) != "}":
            out.append(self._statement(first))
        self.at = 1
        return tuple(out)

    def _statement(self, first: str) -> Statement:
        self.at = 1
        match first:
            case "for":
                loop, role = self._loop(), self._role()
                self._open()
                body = self._block()
                self.end()
                return For(loop, role, body)
            case "let":
                name, dtype = self._typed()
                value = self._expr()
                self.types[name] = dtype
                return Let(name, dtype, value, self._ops())
            case "store":
                buffer, index = self._place()
                self.expect("=")
                dtype = self.buffers[buffer].dtype
                return Store(buffer, index, self._expr(), dtype, self._ops())
            case "fold":
                return self._fold()
            case "parts":
                outer = self.name()
                self.expect(",")
                inner = self._loop()
                self.expect("of")
                whole = self._loop()
                self.end()
                self.loops[outer] = made = Loop(outer, whole.extent // inner.extent)
                return Parts(whole, made, inner)
            case "tile":
                return self._tile()
        raise ParseError(f"there is no statement {first!r}")

    def _fold(self) -> Fold:
        name, dtype = self._typed()
        op = self.name()
        loops = self._loops() if self.accept("over") else ()
        role = Role.VECTOR if self.accept("vector") else Role.SERIAL
        self._open()
        body = tuple(s for s in self._block() if isinstance(s, Let))
        self.expect("of")
        element = self._expr()
        self.types[name] = dtype
        return Fold(name, op, dtype, loops, role, body, element, self._ops())

    def _tile(self) -> Tile:
        op, attrs = self.name(), self._attrs()
        self.expect("by")
        routine = self.name()
        ops = self._positions()
        self._open()
        parts: dict[str, list[Any]] = {k: [] for k in ("operand", "form", "scratch", "write")}
        known: dict[str, Any] = {}
        while (first := self.line()) != "}":
            self.at = 1
            match first:
                case "problem":
                    known["problem"] = self._problem()
                case "variants":
                    known["variants"] = self._names()
                case "variant":
                    known["variant"] = self.name()
                case "operand":
                    parts[first].append(self._operand())
                case "form":
                    parts[first].append(self._form())
                case "scratch":
                    parts[first].append(self._scratch())
                case "write":
                    number = int(self.next().text)
                    self.expect("to")
                    parts[first].append((number, self.name()))
                case "result":
                    known.update(self._result())
                case _:
                    raise ParseError(f"a tile has no {first!r}")
            self.end()
        self.at = 1
        self.end()
        return Tile(
            op, routine, attrs, tuple(parts["operand"]), ops=ops, forms=tuple(parts["form"]),
            scratch=tuple(parts["scratch"]), writes=tuple(parts["write"]), **known,
        )  # fmt: skip

    def _result(self) -> dict[str, Any]:
        made = self.type()
        out: dict[str, Any] = {"dtype": made.dtype, "shape": made.shape}
        if self.accept("order"):
            out["order"] = self.attr()
        if self.accept("as"):
            out["result"] = name = self.name()
            self.types[name] = made.dtype
            self.expect("over")
            out["variables"] = self._loops()
            self._open()
            out["epilogue"] = self._block()
        return out

    def _problem(self) -> Problem:
        op, dtype, operations = self.name(), self.name(), float(self.next().text)
        numbers: list[int] = []
        while self.at < len(self.tokens):
            numbers.append(int(self.next().text))
        return Problem(op, dtype, tuple(numbers), operations)

    def _operand(self) -> Operand:
        constant = self.accept("constant")
        at = self.at
        while self.at < len(self.tokens) and self.peek() != "over":  # loops stand behind their use
            self.at += 1
        loops = self._loops() if self.accept("over") else ()
        behind, self.at = self.at, at
        element = self._expr()
        if loops:
            self.expect("over")
        self.at = behind
        return Operand(loops, element, constant)

    def _form(self) -> Form:
        kind, attrs = self.name(), self.attr()
        self.expect(":")
        dtype = self._dtype()
        self.expect("of")
        buffer = self.name()
        return Form(buffer, kind, dtype, attrs, self.name() == "once")

    def _scratch(self) -> Scratch:
        name = self.name()
        self.expect(":")
        nbytes = self.dim()
        self.expect("bytes")
        return Scratch(name, nbytes, self._dtype() if self.at < len(self.tokens) else None)

    # ------------------------------------------------------------------------------- expressions
    def _expr(self, depth: int = 0) -> Expr:
        if depth > MAX_NESTING:
            raise ParseError(f"an expression nested deeper than {MAX_NESTING}")
        if self.accept("("):
            inner = self._expr(depth + 1)
            self.expect(")")
            return inner
        if self.accept("if"):
            conditions = [self._compare()]
            while self.accept("and"):
                conditions.append(self._compare())
            self.expect("then")
            then = self._expr(depth + 1)
            self.expect("else")
            return Choose(tuple(conditions), then, self._expr(depth + 1))
        if self.accept("position"):
            self.expect("(")
            index = self._index(depth + 1)
            self.expect(")")
            return Position(index, self._of_type())
        token = self.tokens[self.at] if self.at < len(self.tokens) else self.next()
        if token.kind == "number" or token.text in ("True", "False", "inf", "-inf", "nan"):
            value = self.attr()
            return Number(value, self._of_type())
        name = self.name()
        if name in self.buffers and self.peek() == "[":
            self.at -= 1
            buffer, index = self._place(depth + 1)
            return Load(buffer, index, self.buffers[buffer].dtype)
        if self.peek() not in ("(", "{"):
            if name not in self.types:
                raise ParseError(f"there is no variable {name!r} before this line")
            return Var(name, self.types[name])
        attrs = self._attrs()
        self.expect("(")
        args: list[Expr] = []
        while not self.accept(")"):
            args.append(self._expr(depth + 1))
            self.accept(",")
        return Apply(name, tuple(args), self._of_type(), attrs)

    def _compare(self) -> Compare:
        left = self._index()
        op = self.next().text
        if op not in COMPARISONS:
            raise ParseError(f"there is no comparison {op!r}")
        return Compare(op, left, self._index())

    def _place(self, depth: int = 0) -> tuple[str, Index]:
        buffer = self.name()
        if buffer not in self.buffers:
            raise ParseError(f"there is no buffer {buffer!r}")
        self.expect("[")
        index = self._index(depth + 1)
        self.expect("]")
        return buffer, index

    def _index(self, depth: int = 0) -> Index:
        if depth > MAX_NESTING:
            raise ParseError(f"a position nested deeper than {MAX_NESTING}")
        total = Index()
        while True:
            name = self.peek()
            if name in self.loops or name in DERIVATIONS or name == "checked":
                atom = of(self._atom(depth))
                total = total + (atom * self.factor(depth) if self.accept("*") else atom)
            else:
                total = total + self.factor(depth)
            if not self.accept("+"):
                return total

    def _atom(self, depth: int) -> Loop | Derived | Checked:
        name = self.name()
        if name in self.loops:
            return self.loops[name]
        self.expect("(")
        if name == "checked":
            variable = self.name()
            self.expect(",")
            made: Derived | Checked = Checked(variable, self.factor(depth))
        else:
            index = self._index(depth + 1)
            self.expect(",")
            made = Derived(name, index, self.factor(depth))
        self.expect(")")
        return made

    # --------------------------------------------------------------------------------- small things
    def _attrs(self) -> Attrs:
        out: list[tuple[str, Any]] = []
        if self.accept("{"):
            while not self.accept("}"):
                key = self.name()
                self.expect("=")
                out.append((key, self.attr()))
                self.accept(",")
        return tuple(out)

    def _typed(self) -> tuple[str, DType]:
        name = self.name()
        self.expect(":")
        dtype = self._dtype()
        self.expect("=")
        return name, dtype

    def _of_type(self) -> DType:
        return self._dtype() if self.accept(":") else int64

    def _dtype(self) -> DType:
        name = self.name()
        if name not in dtypes.BY_NAME:
            raise ParseError(f"there is no element type {name!r}")
        return dtypes.BY_NAME[name]

    def _loop(self) -> Loop:
        name = self.name()
        self.expect("<")
        self.loops[name] = made = Loop(name, self.dim())
        return made

    def _loops(self) -> tuple[Loop, ...]:
        out = [self._loop()]
        while self.accept(","):
            out.append(self._loop())
        return tuple(out)

    def _role(self) -> Role:
        words: list[str] = []
        while self.peek() not in ("{", ""):
            words.append(self.name())
        return Role(" ".join(words))

    def _open(self) -> None:
        self.expect("{")
        self.end()

    def _positions(self) -> Ops:
        if not self.accept("@"):
            return ()
        out = [int(self.next().text)]
        while self.accept(","):
            out.append(int(self.next().text))
        return tuple(out)

    def _ops(self) -> Ops:
        found = self._positions()
        self.end()
        return found
