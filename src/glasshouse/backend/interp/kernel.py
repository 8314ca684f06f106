"""Runs one kernel of kernel IR on flat buffers, with NumPy over whole iteration spaces.

The turns of a loop are independent of each other, so each statement is computed for all turns
before the next one. Roles, variants, forms and scratch change no result and are not looked at: a
tile is its op's NumPy meaning on its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from glasshouse.backend.interp.elements import Array, Bindings, held_type
from glasshouse.ir.dtype import finish
from glasshouse.ir.op import REGISTRY
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.kernel import TEMPORARY, Kernel
from glasshouse.lower.kernel.statement import (
    Fold,
    For,
    Let,
    Operand,
    Parts,
    Statement,
    Store,
    Tile,
)
from glasshouse.numpy_ref.executor import resolve

MOST_ELEMENTS = 1 << 22
"""Turns of a nest that are computed at once; of a larger one, a part of the outermost loop."""


def run_kernel(kernel: Kernel, memory: Mapping[str, Array], sizes: Mapping[str, int]) -> int:
    """Compute into the kernel's outputs, which `memory` has by name, like its operands.

    Gives 0; 1 for an index from data outside of what it indexes, -1 for a division by zero.
    """
    buffers = dict(memory)
    scope = Bindings(sizes, buffers, {b.name: b.dtype for b in kernel.buffers})
    for temporary in kernel.with_role(TEMPORARY):
        buffers[temporary.name] = np.zeros(scope.size(temporary.size), temporary.dtype.storage)
    for statement in kernel.body:
        _nest(statement, scope)
    return scope.fault


def _nest(statement: Statement, scope: Bindings) -> None:
    """A statement of the kernel itself; the loops inside have an axis each."""
    depth = _depth((statement,))
    if isinstance(statement, For) and depth:
        extent = scope.size(statement.loop.extent)
        inside = _turns(statement.body, scope)
        step = max(MOST_ELEMENTS // max(inside, 1), 1)
        for begin in range(0, extent, step):
            turns = np.arange(begin, min(begin + step, extent))
            scope.loops[statement.loop] = turns.reshape(-1, *[1] * (depth - 1))
            _run(statement.body, scope, 1, depth)
    else:
        _run((statement,), scope, 0, depth)


def _run(statements: Iterable[Statement], scope: Bindings, at: int, depth: int) -> None:
    """Statements inside of `at` loops, in a nest that is `depth` loops deep."""
    for s in statements:
        match s:
            case For():
                _bind(scope, s.loop, at, depth)
                _run(s.body, scope, at + 1, depth)
            case Let():
                scope.variables[s.name] = scope.value(s.value)
            case Store():
                scope.store(s.buffer, s.index, scope.value(s.value))
            case Fold():
                _fold(s, scope, at, depth)
            case Parts():
                whole, inner = scope.loops[s.loop], scope.size(s.inner.extent)
                scope.loops[s.outer], scope.loops[s.inner] = whole // inner, whole % inner
            case Tile():
                _tile(s, scope)


def _bind(scope: Bindings, loop: Loop, at: int, depth: int) -> None:
    shape = [1] * depth
    shape[at] = scope.size(loop.extent)
    scope.loops[loop] = np.arange(shape[at]).reshape(shape)


def _fold(fold: Fold, scope: Bindings, at: int, depth: int) -> None:
    axes = tuple(range(at, at + len(fold.loops)))
    for axis, loop in zip(axes, fold.loops, strict=True):
        _bind(scope, loop, axis, depth)
    _run(fold.body, scope, at + len(fold.loops), depth)
    element = scope.value(fold.element)
    shape = list(np.broadcast_shapes(element.shape, (1,) * depth))
    for axis, loop in zip(axes, fold.loops, strict=True):
        shape[axis] = scope.size(loop.extent)
    whole = np.broadcast_to(element, shape)
    kind = held_type(fold.dtype)
    with np.errstate(all="ignore"):
        scope.variables[fold.name] = _FOLDS[fold.op](whole, axes, kind).astype(kind)


def _least(kind: np.dtype[Any]) -> Any:
    return -np.inf if kind.kind == "f" else False if kind.kind == "b" else np.iinfo(kind).min


def _most(kind: np.dtype[Any]) -> Any:
    return np.inf if kind.kind == "f" else True if kind.kind == "b" else np.iinfo(kind).max


_FOLDS: dict[str, Callable[[Array, tuple[int, ...], np.dtype[Any]], Array]] = {
    "sum": lambda x, axes, kind: np.sum(x, axis=axes, keepdims=True, dtype=kind),
    "prod": lambda x, axes, kind: np.prod(x, axis=axes, keepdims=True, dtype=kind),
    "max": lambda x, axes, kind: np.max(x, axis=axes, keepdims=True, initial=_least(kind)),
    "min": lambda x, axes, kind: np.min(x, axis=axes, keepdims=True, initial=_most(kind)),
    "any": lambda x, axes, kind: np.any(x != 0, axis=axes, keepdims=True),
    "all": lambda x, axes, kind: np.all(x != 0, axis=axes, keepdims=True),
}


# ------------------------------------------------------------------------------------------- tiles
def _tile(tile: Tile, scope: Bindings) -> None:
    """The op's meaning on the operands; then its results go where they are wanted."""
    op = REGISTRY[tile.op]
    operands = [_operand(o, scope) for o in tile.operands]
    attrs = {name: resolve(value, scope.sizes) for name, value in tile.attrs}
    with np.errstate(all="ignore"):
        out = op.ref(*operands, **attrs)
    results = [np.asarray(r) for r in (out if isinstance(out, tuple) else (out,))]
    for number, buffer in tile.writes:
        dtype = scope.dtypes[buffer]
        scope.store_whole(buffer, finish(results[number], dtype))
    if tile.result:
        _hand_over(tile, results[0], scope)


def _operand(operand: Operand, scope: Bindings) -> Array:
    rank = len(operand.loops)
    for axis, loop in enumerate(operand.loops):
        _bind(scope, loop, axis, rank)
    shape = [scope.size(d) for d in operand.shape]
    return np.ascontiguousarray(np.broadcast_to(scope.value(operand.element), shape))


def _hand_over(tile: Tile, result: Array, scope: Bindings) -> None:
    """Each element of the result to the epilogue, in the order in which the variables count."""
    laid_out = result if tile.order is None else result.transpose(tile.order)
    extents = [scope.size(v.extent) for v in tile.variables]
    depth = len(extents) + _depth(tile.epilogue)
    for axis, loop in enumerate(tile.variables):
        _bind(scope, loop, axis, depth)
    shape = (*extents, *[1] * (depth - len(extents)))
    scope.variables[tile.result] = laid_out.reshape(shape).astype(held_type(tile.dtype))
    _run(tile.epilogue, scope, len(extents), depth)


# ------------------------------------------------------------------------------------------- sizes
def _depth(statements: Iterable[Statement]) -> int:
    """How many loops stand inside of each other, those of folds among them."""
    most = 0
    for s in statements:
        if isinstance(s, For):
            most = max(most, 1 + _depth(s.body))
        elif isinstance(s, Fold):
            most = max(most, len(s.loops) + _depth(s.body))
    return most


def _turns(statements: Iterable[Statement], scope: Bindings) -> int:
    """The most turns that a statement inside of one turn has."""
    most = 1
    for s in statements:
        if isinstance(s, For):
            most = max(most, scope.size(s.loop.extent) * _turns(s.body, scope))
        elif isinstance(s, Fold):
            own = 1
            for loop in s.loops:
                own *= scope.size(loop.extent)
            most = max(most, own)
    return most
