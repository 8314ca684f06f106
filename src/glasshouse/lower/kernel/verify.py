"""Checks that a kernel is well formed: names are bound before they are used, types agree, positions
stay inside of buffers as far as sizes tell, and every op that is named exists.

`lower` verifies each kernel that it makes, so a backend may rely on all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from glasshouse.errors import GraphError
from glasshouse.ir.dim import bounds
from glasshouse.ir.dtype import DType
from glasshouse.ir.op import REGISTRY
from glasshouse.lower.kernel.expr import (
    COMPARISONS,
    Apply,
    Choose,
    Expr,
    Load,
    Position,
    Var,
)
from glasshouse.lower.kernel.index import DERIVATIONS, Checked, Derived, Index, Loop
from glasshouse.lower.kernel.kernel import OPERAND, Kernel
from glasshouse.lower.kernel.queries import position_range
from glasshouse.lower.kernel.statement import (
    Fold,
    For,
    Let,
    Operand,
    Ops,
    Parts,
    Statement,
    Store,
    Tile,
)

FOLDS = frozenset({"sum", "prod", "max", "min", "any", "all"})


def verify_kernel(kernel: Kernel) -> None:
    """Raise `GraphError` where the kernel is not well formed."""
    _Verifier(kernel).run()


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.buffers = {b.name: b for b in kernel.buffers}
        self.loops: dict[str, Loop] = {}
        self.variables: dict[str, DType] = {}

    def run(self) -> None:
        if len(self.buffers) != len(self.kernel.buffers):
            self._fail("two buffers have one name")
        self._block(self.kernel.body)

    def _fail(self, why: str) -> None:
        raise GraphError(f"kernel {self.kernel.name}: {why}")

    # ----------------------------------------------------------------------------------- statements
    def _block(self, statements: Iterable[Statement]) -> None:
        with self._inside():
            for s in statements:
                self._statement(s)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """What is bound in a body is not known behind it."""
        loops, variables = dict(self.loops), dict(self.variables)
        yield
        self.loops, self.variables = loops, variables

    def _statement(self, s: Statement) -> None:
        match s:
            case For():
                with self._inside():
                    self._bind_loop(s.loop)
                    self._block(s.body)
            case Let():
                self._let(s)
            case Store():
                self._ops(s.ops)
                self._position(s.index, s.buffer)
                self._expr(s.value)
                if self.buffers[s.buffer].role == OPERAND:
                    self._fail(f"it writes its operand {s.buffer}")
            case Fold():
                self._fold(s)
            case Parts():
                self._known(s.loop)
                self._bind_loop(s.outer)
                self._bind_loop(s.inner)
            case Tile():
                self._tile(s)

    def _let(self, s: Let) -> None:
        self._ops(s.ops)
        made = self._expr(s.value)
        if made is not s.dtype:
            self._fail(f"{s.name} is {s.dtype}, its value {made}")
        self._bind(s.name, s.dtype)

    def _fold(self, s: Fold) -> None:
        self._ops(s.ops)
        if s.op not in FOLDS:
            self._fail(f"there is no fold {s.op}")
        with self._inside():
            for loop in s.loops:
                self._bind_loop(loop)
            for let in s.body:
                self._let(let)
            self._expr(s.element)
        self._bind(s.name, s.dtype)

    def _tile(self, s: Tile) -> None:
        self._ops(s.ops)
        if s.op not in REGISTRY:
            self._fail(f"there is no op {s.op} for a tile")
        for operand in s.operands:
            self._operand(operand)
        for _, buffer in s.writes:
            if buffer not in self.buffers or self.buffers[buffer].role == OPERAND:
                self._fail(f"a tile writes to {buffer}")
        if s.variants and s.variant not in s.variants:
            self._fail(f"variant {s.variant!r} is none of {', '.join(s.variants)}")
        for form in s.forms:
            if form.buffer not in self.buffers:
                self._fail(f"a form of {form.buffer}, which it does not have")
        if s.result:
            with self._inside():
                for loop in s.variables:
                    self._bind_loop(loop)
                self._bind(s.result, s.dtype)
                self._block(s.epilogue)
        elif s.epilogue:
            self._fail("a tile with an epilogue and no result")

    def _operand(self, operand: Operand) -> None:
        with self._inside():
            for loop in operand.loops:
                self._bind_loop(loop)
            self._expr(operand.element)

    # --------------------------------------------------------------------------------- expressions
    def _expr(self, expr: Expr) -> DType:
        match expr:
            case Load():
                self._position(expr.index, expr.buffer)
                if self.buffers[expr.buffer].dtype is not expr.dtype:
                    self._fail(f"{expr.buffer} is read as {expr.dtype}")
            case Var():
                if self.variables.get(expr.name) is not expr.dtype:
                    known = self.variables.get(expr.name)
                    self._fail(f"{expr.name} is used as {expr.dtype}, it is {known or 'unknown'}")
            case Apply():
                if expr.op not in REGISTRY:
                    self._fail(f"there is no op {expr.op}")
                for arg in expr.args:
                    self._expr(arg)
            case Position():
                self._index(expr.index)
            case Choose():
                for condition in expr.conditions:
                    if condition.op not in COMPARISONS:
                        self._fail(f"there is no comparison {condition.op}")
                    self._index(condition.left)
                    self._index(condition.right)
                if self._expr(expr.then) is not self._expr(expr.otherwise):
                    self._fail("a choice between elements of two types")
            case _:
                pass
        return expr.dtype

    def _position(self, index: Index, buffer: str) -> None:
        """A position in a buffer; one that is surely outside is an error."""
        if buffer not in self.buffers:
            self._fail(f"there is no buffer {buffer}")
        self._index(index)
        if any(bounds(loop.extent)[1] == 0 for loop in self.loops.values()):
            return  # no turn takes the position
        low, high = position_range(index)
        if high < 0 or low >= bounds(self.buffers[buffer].size)[1]:
            self._fail(f"{buffer} has {self.buffers[buffer].size} elements, a position is outside")
        size = self.buffers[buffer].size
        if isinstance(size, int) and (low < 0 or high >= size) and _is_exact(index):
            self._fail(f"{buffer} has {size} elements, positions go from {low} to {high}")

    def _index(self, index: Index) -> None:
        for atom in index.atoms():
            match atom:
                case Loop():
                    self._known(atom)
                case Checked():
                    if atom.name not in self.variables:
                        self._fail(f"the index {atom.name} is not known")
                case Derived():
                    if atom.how not in DERIVATIONS:
                        self._fail(f"there is no {atom.how} position")

    # ---------------------------------------------------------------------------------------- names
    def _known(self, loop: Loop) -> None:
        if self.loops.get(loop.name) != loop:
            self._fail(f"the loop {loop.name} is not around this")

    def _bind_loop(self, loop: Loop) -> None:
        if loop.name in self.loops:
            self._fail(f"the loop {loop.name} is inside of itself")
        self.loops[loop.name] = loop

    def _bind(self, name: str, dtype: DType) -> None:
        if name in self.variables:
            self._fail(f"{name} is bound twice")
        self.variables[name] = dtype

    def _ops(self, ops: Ops) -> None:
        if any(not 0 <= position < len(self.kernel.ops) for position in ops):
            self._fail(f"a statement computes ops {list(ops)} of {len(self.kernel.ops)}")


def _is_exact(index: Index) -> bool:
    """Whether every position between the least and the greatest end is taken in some turn."""
    return all(isinstance(a, Loop) and isinstance(a.extent, int) for a, _ in index.terms)
