"""Values of kernel IR expressions, for all turns of the loops around them at once.

Every loop has an axis of its own, so the value of a variable is an array that broadcasts over the
loops it does not depend on. Narrow floats are held as float32, as the IR says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glasshouse.errors import GraphError
from glasshouse.ir.dim import Dim, evaluate
from glasshouse.ir.dtype import NARROW, DType, finish, from_storage, to_storage
from glasshouse.ir.op import REGISTRY
from glasshouse.lower.kernel.expr import Apply, Choose, Compare, Expr, Load, Number, Position, Var
from glasshouse.lower.kernel.index import (
    CLAMPED,
    GUARDED,
    QUOTIENT,
    REFLECTED,
    REMAINDER,
    Atom,
    Checked,
    Index,
    Loop,
)
from glasshouse.lower.kernel.queries import sizes_that_hold
from glasshouse.numpy_ref.executor import resolve
from glasshouse.ops.philox import top_bits, words

Array = np.ndarray[Any, Any]

_DIVISIONS = ("floor_divide", "remainder")


@dataclass
class Bindings:
    """What is known at a statement: sizes, buffers (flat, as stored), loop variables, variables."""

    sizes: Mapping[str, int]
    buffers: Mapping[str, Array]
    dtypes: Mapping[str, DType]
    loops: dict[Loop, Array] = field(default_factory=dict)
    variables: dict[str, Array] = field(default_factory=dict)
    fault: int = 0  # as `Executable.run` tells: 1 an index outside, -1 a division by zero

    def size(self, dim: Dim) -> int:
        return evaluate(dim, self.sizes)

    # ----------------------------------------------------------------------------------- positions
    def position(self, index: Index) -> Array:
        """An index as an array of numbers."""
        total: Array = np.asarray(self.size(index.constant), np.int64)
        for atom, coefficient in index.terms:
            total = total + self._atom(atom) * self.size(coefficient)
        return total

    def _atom(self, atom: Atom) -> Array:
        if isinstance(atom, Loop):
            return self.loops[atom]
        size = self.size(atom.size)
        if isinstance(atom, Checked):
            return self._checked(atom, size)
        return _derived(atom.how, self.position(atom.index), size)

    def _checked(self, atom: Checked, size: int) -> Array:
        place = self.variables[atom.name].astype(np.int64)
        place = np.where(place < 0, place + size, place)
        outside = (place < 0) | (place >= size)
        if outside.any():
            self.fault = 1
        return np.where(outside, 0, place)

    # ---------------------------------------------------------------------------------- elements
    def value(self, expr: Expr) -> Array:
        """An expression as an array of elements."""
        match expr:
            case Load():
                return self.load(expr.buffer, expr.index)
            case Number():
                return np.asarray(expr.value).astype(held_type(expr.dtype))
            case Var():
                return self.variables[expr.name]
            case Position():
                return self.position(expr.index).astype(held_type(expr.dtype))
            case Choose():
                chosen = np.ones((), bool)
                for condition in expr.conditions:
                    chosen = chosen & self._holds(condition)
                return np.where(chosen, self.value(expr.then), self.value(expr.otherwise))
            case Apply():
                args = [self.value(a) for a in expr.args]
                if expr.op in _DIVISIONS and not expr.dtype.is_float and not args[1].all():
                    self.fault = -1
                    args[1] = np.where(args[1] == 0, 1, args[1])
                attrs = {name: resolve(v, self.sizes) for name, v in expr.attrs}
                return applied(expr, args, attrs)

    def load(self, buffer: str, index: Index) -> Array:
        memory, place = self.buffers[buffer], self.position(index)
        if not memory.size and not all(map(self.size, sizes_that_hold(index))):
            return np.zeros(place.shape, held_type(self.dtypes[buffer]))
        if place.size and (place.min() < 0 or place.max() >= memory.size):
            raise GraphError(f"{buffer} has {memory.size} elements; a kernel reads another")
        return held(memory[place], self.dtypes[buffer])

    def store(self, buffer: str, index: Index, value: Array) -> None:
        memory, place = self.buffers[buffer], self.position(index)
        if place.size and (place.min() < 0 or place.max() >= memory.size):
            raise GraphError(f"{buffer} has {memory.size} elements; a kernel writes another")
        place, value = np.broadcast_arrays(place, value)
        memory[place] = to_storage(finish(value, self.dtypes[buffer]), self.dtypes[buffer])

    def store_whole(self, buffer: str, value: Array) -> None:
        """A whole result, row-major."""
        self.buffers[buffer][:] = to_storage(value, self.dtypes[buffer]).reshape(-1)

    def _holds(self, condition: Compare) -> Array:
        left, right = self.position(condition.left), self.position(condition.right)
        if condition.op == "inside":
            return np.asarray((left >= 0) & (left < right))
        compare = {"<": np.less, "<=": np.less_equal, ">=": np.greater_equal}[condition.op]
        return np.asarray(compare(left, right))


def _derived(how: str, place: Array, size: int) -> Array:
    if size == 0:  # nothing lies there
        return np.zeros_like(place)
    if how == QUOTIENT:
        return place // size
    if how == REMAINDER:
        return place % size
    if how in (CLAMPED, GUARDED):
        return np.clip(place, 0, size - 1)
    if how == REFLECTED:
        period = max(2 * (size - 1), 1)
        within = np.abs(place) % period
        return np.minimum(within, period - within) if size > 1 else np.zeros_like(place)
    return place % size  # wrapped: NumPy's remainder is never negative


def held_type(dtype: DType) -> np.dtype[Any]:
    """In which type elements of a dtype are computed with."""
    return np.dtype(np.float32) if dtype in NARROW else dtype.carrier


def held(stored: Array, dtype: DType) -> Array:
    """What lies in memory, as elements."""
    return from_storage(stored, dtype).astype(held_type(dtype), copy=False)


def applied(expr: Apply, args: list[Array], attrs: dict[str, Any]) -> Array:
    """An op on elements; only a cast rounds to a half float."""
    special = _BY_POSITION.get(expr.op)
    with np.errstate(all="ignore"):
        if special is not None:
            made = special(args, attrs, expr.dtype)
        else:
            made = np.asarray(REGISTRY[expr.op].ref(*args, **attrs))
        if expr.dtype in NARROW and expr.op != "cast":
            return made.astype(np.float32)
        return finish(made, expr.dtype).astype(held_type(expr.dtype), copy=False)


# ---------------------------------------------------------------------- ops that take positions
def _random(op: str) -> Callable[[list[Array], dict[str, Any], DType], Array]:
    """The element of a random tensor with this number: taken from the tensor that holds it."""

    def made(args: list[Array], attrs: dict[str, Any], dtype: DType) -> Array:
        *given, seed, number = args
        count = int(number.max(initial=-1)) + 1
        if op == "dropout":
            kept = top_bits(words(int(seed.reshape(-1)[0]), count)[0])[number]
            p = attrs["p"]
            scale = given[0].dtype.type(1 / (1 - p) if p < 1 else 0)
            zero = given[0].dtype.type(0)
            chosen: Array = np.where(kept >= math.ceil(p * 2**24), given[0] * scale, zero)
            return chosen
        whole = {**attrs, "shape": (count,), "dtype": dtype}
        drawn: Array = np.asarray(REGISTRY[op].ref(seed.reshape(-1)[0], **whole))[number]
        return drawn

    return made


def _one_hot(args: list[Array], attrs: dict[str, Any], dtype: DType) -> Array:
    return np.asarray(args[0] == args[1]).astype(dtype.carrier)


def _arange(args: list[Array], attrs: dict[str, Any], dtype: DType) -> Array:
    kind = held_type(dtype).type
    return np.asarray(kind(attrs["start"]) + args[0] * kind(attrs["step"]))


def _quantized(op: str) -> Callable[[list[Array], dict[str, Any], DType], Array]:
    """Scale and zero point are elements here, whatever axis they belong to."""

    def made(args: list[Array], attrs: dict[str, Any], dtype: DType) -> Array:
        x, scale, zero = np.broadcast_arrays(*args)
        flat = [a.reshape(-1) for a in (x, scale, zero)]
        return np.asarray(REGISTRY[op].ref(*flat, **{**attrs, "axis": 0})).reshape(x.shape)

    return made


_BY_POSITION: dict[str, Callable[[list[Array], dict[str, Any], DType], Array]] = {
    "uniform": _random("uniform"),
    "normal": _random("normal"),
    "dropout": _random("dropout"),
    "one_hot": _one_hot,
    "arange": _arange,
    "quantize": _quantized("quantize"),
    "dequantize": _quantized("dequantize"),
}
