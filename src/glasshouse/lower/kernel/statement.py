"""Statements of the kernel IR: loops, folds, lets, stores, and tiles.

`ops` are the positions, in the group's body (sources not counted), of the ops that a statement
computes; a loop computes what its body does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import DType
from glasshouse.ir.types import Shape
from glasshouse.lower.choice import Problem
from glasshouse.lower.kernel.expr import Attrs, Expr
from glasshouse.lower.kernel.index import Index, Loop

Ops = tuple[int, ...]


class Role(Enum):
    """How a loop runs. Every role gives the same result up to the order of sums.

    Two parallel loops, one directly inside the other, are shared among threads as one. The body of
    a vector loop computes neighbours side by side; a fold in it folds for each of them.
    """

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTOR = "vector"
    PARALLEL_VECTOR = "parallel vector"  # shared among threads, each of which goes over vectors

    @property
    def is_parallel(self) -> bool:
        return self in (Role.PARALLEL, Role.PARALLEL_VECTOR)

    @property
    def is_vector(self) -> bool:
        return self in (Role.VECTOR, Role.PARALLEL_VECTOR)


@dataclass(frozen=True, slots=True)
class For:
    """The body for each value of the loop variable; turns are independent of each other."""

    loop: Loop
    role: Role
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Let:
    """A variable, bound once, known to the statements behind it in the same body."""

    name: str
    dtype: DType
    value: Expr
    ops: Ops = ()


@dataclass(frozen=True, slots=True)
class Store:
    """Write an element to a flat position of a buffer."""

    buffer: str
    index: Index
    value: Expr
    dtype: DType
    ops: Ops = ()


@dataclass(frozen=True, slots=True)
class Fold:
    """A variable that is `op` (sum, prod, max, min, any, all) of `element` over all turns of the
    loops; `body` is computed in each. Without loops it is the fold of one element.

    `role` is that of the innermost loop: vector means that lanes are folded at the end. As for
    elements, half floats are accumulated in float32.
    """

    name: str
    op: str
    dtype: DType
    loops: tuple[Loop, ...]
    role: Role
    body: tuple[Let, ...]
    element: Expr
    ops: Ops = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """`outer` = loop // inner.extent and `inner` = loop % inner.extent, known from here on."""

    loop: Loop
    outer: Loop
    inner: Loop


@dataclass(frozen=True, slots=True)
class Operand:
    """What a tile reads, as a function of its own loops, one for each axis: mostly a `Load` at an
    affine index (a view), or arithmetic on such (a dequantized operand)."""

    loops: tuple[Loop, ...]
    element: Expr
    constant: bool = False  # its data is known before the first run

    @property
    def shape(self) -> Shape:
        return tuple(loop.extent for loop in self.loops)


@dataclass(frozen=True, slots=True)
class Form:
    """Another form of an operand, which a routine of the target wants: `kind` and sizes say which.

    `once`: the operand is a constant, and the form is made when the module is loaded; otherwise in
    every run. What is computed does not depend on it.
    """

    buffer: str
    kind: str
    dtype: DType
    attrs: tuple[Any, ...]
    once: bool


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory for a routine alone, inside of the kernel's workspace."""

    name: str
    nbytes: Dim
    dtype: DType | None = None  # None: bytes without a type


@dataclass(frozen=True, slots=True)
class Tile:
    """An op of the registry computed as a whole by a `routine` of the target.

    The meaning is that of the op with `attrs` on its operands. Its first result, of `dtype` and
    `shape`, is handed over element by element where there is an `epilogue`: `variables`, outermost
    first, count it through in the order in which its axes would lie (`order`, row-major if None),
    and in the epilogue `result` is bound to the element. The last variable may run over lanes.
    `writes` are results that go whole, row-major, into buffers: (number of the result, buffer).

    `variants` are the names of those that the target has, the usual one first; `variant` is the
    one chosen ("" where there is no choice), `forms` and `scratch` what it needs; none of the three
    changes the meaning beyond rounding.
    """

    op: str
    routine: str
    attrs: Attrs
    operands: tuple[Operand, ...]
    dtype: DType
    shape: Shape
    order: tuple[int, ...] | None = None
    variables: tuple[Loop, ...] = ()
    result: str = ""
    epilogue: tuple[Statement, ...] = ()
    writes: tuple[tuple[int, str], ...] = ()
    ops: Ops = ()
    problem: Problem | None = None
    variants: tuple[str, ...] = ()
    variant: str = ""
    forms: tuple[Form, ...] = ()
    scratch: tuple[Scratch, ...] = ()

    def attr(self, name: str) -> Any:
        return next(v for k, v in self.attrs if k == name)


Statement = For | Let | Store | Fold | Parts | Tile
