"""Rebases the indices of an operand to the first element that a kernel reads of it.

Steps of a loop that a model unrolls differ in the slice that they take alone: counted this way
they are one kernel, and the call passes where a slice begins (`Call.offsets`). Of 48 steps of a
selective scan 48 kernels became 1. Where code counts on aligned addresses, so does the beginning:
steps whose slices begin alike modulo that are one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from glasshouse.lower.kernel.expr import Apply, Choose, Expr, Load
from glasshouse.lower.kernel.kernel import OPERAND, Kernel
from glasshouse.lower.kernel.queries import expressions, loads, position_range, simple
from glasshouse.lower.kernel.statement import Fold, For, Let, Operand, Statement, Store, Tile


def counted_from_first_read(kernel: Kernel, aligned: int = 1) -> tuple[Kernel, tuple[int, ...]]:
    """The kernel, and for each operand the element that it calls its first, a multiple of so many
    bytes behind its beginning."""
    starts = _starts(kernel, aligned)
    offsets = tuple(starts.get(b.name, 0) for b in kernel.with_role(OPERAND))
    if not any(offsets):
        return kernel, offsets
    moved = {name: start for name, start in starts.items() if start}
    return replace(kernel, body=tuple(_statement(s, moved) for s in kernel.body)), offsets


def _starts(kernel: Kernel, aligned: int) -> dict[str, int]:
    """The least position that is read of each operand, as far as sizes tell, at a multiple of some
    bytes. A routine that brings an operand into another form takes all of it, and so does a kernel
    that asks for a constant early."""
    whole = {form.buffer for tile in kernel.tiles for form in tile.forms}
    operands = {
        b.name: max(aligned // b.dtype.itemsize, 1)
        for b in kernel.with_role(OPERAND)
        if b.name not in whole and not b.constant
    }
    found: dict[str, float] = {}
    for s in simple(kernel.body):
        for value in expressions(s):
            for load in loads(value):
                if load.buffer in operands:
                    low = position_range(load.index)[0]
                    found[load.buffer] = min(found.get(load.buffer, low), low)
    known = {name: int(low) for name, low in found.items() if 0 < low < float("inf")}
    return {name: low - low % operands[name] for name, low in known.items()}


def _statement(s: Statement, starts: Mapping[str, int]) -> Statement:
    match s:
        case For():
            return replace(s, body=tuple(_statement(x, starts) for x in s.body))
        case Let() | Store():
            return replace(s, value=_expr(s.value, starts))
        case Fold():
            body = tuple(replace(let, value=_expr(let.value, starts)) for let in s.body)
            return replace(s, body=body, element=_expr(s.element, starts))
        case Tile():
            operands = tuple(_operand(o, starts) for o in s.operands)
            epilogue = tuple(_statement(x, starts) for x in s.epilogue)
            return replace(s, operands=operands, epilogue=epilogue)
    return s


def _operand(operand: Operand, starts: Mapping[str, int]) -> Operand:
    return replace(operand, element=_expr(operand.element, starts))


def _expr(expr: Expr, starts: Mapping[str, int]) -> Expr:
    match expr:
        case Load():
            start = starts.get(expr.buffer, 0)
            return replace(expr, index=expr.index + -start) if start else expr
        case Apply():
            return replace(expr, args=tuple(_expr(x, starts) for x in expr.args))
        case Choose():
            then, otherwise = _expr(expr.then, starts), _expr(expr.otherwise, starts)
            return replace(expr, then=then, otherwise=otherwise)
    return expr
