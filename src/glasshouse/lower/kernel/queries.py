"""Questions about kernel IR: which positions and variables an expression reads, what depends on a
loop, which buffers are read and how often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from glasshouse.ir.dim import Dim, Symbol, SymDim, bounds, product, symbols_of
from glasshouse.ir.dtype import DType
from glasshouse.ir.op import op_named
from glasshouse.lower.kernel.expr import Apply, Choose, Expr, Load, Position, Var
from glasshouse.lower.kernel.index import (
    CLAMPED,
    GUARDED,
    REFLECTED,
    Checked,
    Derived,
    Index,
    Loop,
)
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.statement import Fold, For, Let, Operand, Statement, Store, Tile

_INSIDE = (CLAMPED, GUARDED, REFLECTED)


def parts(expr: Expr) -> Iterator[Expr]:
    """An expression and all that it is made of, in the order in which they are written."""
    pending = [expr]
    while pending:
        one = pending.pop()
        yield one
        if isinstance(one, Apply):
            pending += reversed(one.args)
        elif isinstance(one, Choose):
            pending += (one.otherwise, one.then)


def loads(expr: Expr) -> Iterator[Load]:
    """The loads of an expression."""
    return (one for one in parts(expr) if isinstance(one, Load))


def positions(expr: Expr) -> Iterator[Index]:
    """The positions that an expression computes with, those of its loads not among them."""
    for one in parts(expr):
        if isinstance(one, Position):
            yield one.index
        elif isinstance(one, Choose):
            for condition in one.conditions:
                yield condition.left
                yield condition.right


def is_same_along(choice: Choose, loop: Loop) -> bool:
    """Whether the conditions of a choice are the same for all turns of a loop."""
    sides = (side for c in choice.conditions for side in (c.left, c.right))
    return all(side.step(loop) == 0 for side in sides)


def simple(statements: Iterable[Statement]) -> Iterator[Let | Store | Fold | Tile]:
    """All statements that compute, those inside of loops, folds and epilogues among them."""
    for s in statements:
        if isinstance(s, For):
            yield from simple(s.body)
        elif isinstance(s, Fold):
            yield from s.body
            yield s
        elif isinstance(s, Tile):
            yield s
            yield from simple(s.epilogue)
        elif isinstance(s, (Let, Store)):
            yield s


def expressions(s: Let | Store | Fold | Tile) -> tuple[Expr, ...]:
    """The expressions of one statement."""
    if isinstance(s, (Let, Store)):
        return (s.value,)
    if isinstance(s, Fold):
        return (s.element,)
    return tuple(o.element for o in s.operands)


def depends(s: Fold | Let, loop: Loop) -> bool:
    """Whether the places that a statement reads at, or what a fold takes in, change with a loop
    around it."""
    values = (s.value,) if isinstance(s, Let) else (*(let.value for let in s.body), s.element)
    return any(
        index.depends_on(loop)
        for value in values
        for index in (*(load.index for load in loads(value)), *positions(value))
    )


def alike_along(body: Iterable[Let], loop: Loop, folded: Iterable[str]) -> list[Let]:
    """Those of a fold's statements that give the same for all turns of a loop around it, in which
    what is `folded` before is another in each turn."""
    alike: list[Let] = []
    others = set(folded)
    for let in body:
        if depends(let, loop) or not others.isdisjoint(variables(let.value)):
            others.add(let.name)
        else:
            alike.append(let)
    return alike


def variables(expr: Expr) -> set[str]:
    """The variables that an expression reads, those that say where to load among them."""
    found = {one.name for one in parts(expr) if isinstance(one, Var)}
    for index in (*(load.index for load in loads(expr)), *positions(expr)):
        found.update(a.name for a in index.atoms() if isinstance(a, Checked))
    return found


def reads_where_data_says(statements: Iterable[Statement]) -> bool:
    """Whether a place that is read at comes from data."""
    return any(
        isinstance(atom, Checked)
        for s in simple(statements)
        for value in expressions(s)
        for load in loads(value)
        for atom in load.index.atoms()
    )


def readers(kernel: Kernel, buffer: str) -> list[tuple[Let | Store | Fold | Tile, Load]]:
    """Each statement that reads a buffer, with each of its loads from there."""
    return [
        (s, load)
        for s in simple(kernel.body)
        for value in expressions(s)
        for load in loads(value)
        if load.buffer == buffer
    ]


def reads_as_it_lies(kernel: Kernel, buffer: str) -> bool:
    """Whether anything in a kernel reads a buffer itself, and not a form of it made beforehand."""
    return any(
        not (isinstance(s, Tile) and any(f.buffer == buffer and f.once for f in s.forms))
        for s, _ in readers(kernel, buffer)
    )


def sizes_that_hold(index: Index) -> list[Dim]:
    """The sizes into which places of a position are brought, that may be 0 in some runs: then the
    buffer holds nothing, though loops go on, and no place of it is inside, not even the one that
    stands for those outside (whose value nobody uses)."""
    held = (
        a.size
        for a in index.atoms()
        if isinstance(a, Checked) or (isinstance(a, Derived) and a.how in _INSIDE)
    )
    return [d for d in dict.fromkeys(held) if bounds(d)[0] < 1]


def may_share(kernel: Kernel, operand: str, output: str) -> bool:
    """Whether an output may be written in place, over an operand: every load of the operand stands
    in one body, in front of the only store to the output, at the position of that store; or a tile
    writes some elements of the operand, which nothing else reads."""
    if any(form.buffer == operand for form in kernel.forms):
        return False
    for tile in kernel.tiles:
        if any(buffer == output for _, buffer in tile.writes):
            return op_named(tile.op).traits.updates and _reads_once(kernel, tile, operand)
    stores = [s for s in simple(kernel.body) if isinstance(s, Store) and s.buffer == output]
    found = readers(kernel, operand)
    if len(stores) != 1 or not all(load.index == stores[0].index for _, load in found):
        return False
    if not stores[0].index.is_affine:
        return False
    body = _body_with(kernel.body, stores[0])
    behind = [s is stores[0] for s in body].index(True)
    return all(any(s is reader for s in body[:behind]) for reader, _ in found)


def _reads_once(kernel: Kernel, tile: Tile, buffer: str) -> bool:
    """Whether a buffer is read as the first operand of a tile, without a copy, and nowhere else."""
    first = tile.operands[0].element
    found = readers(kernel, buffer)
    return len(found) == 1 and found[0][1] is first and found[0][0] is tile


def _body_with(body: tuple[Statement, ...], wanted: Store) -> tuple[Statement, ...]:
    """The body in which a statement stands itself, loops and epilogues looked through."""
    pending = [body]
    while pending:
        here = pending.pop()
        if any(s is wanted for s in here):
            return here
        for s in here:
            if isinstance(s, For):
                pending.append(s.body)
            elif isinstance(s, Tile):
                pending.append(s.epilogue)
    raise ValueError("the statement is of another kernel")


def view(operand: Operand) -> Load:
    """The load behind an operand that is a view."""
    assert isinstance(operand.element, Load), "an operand that is computed on the way is no view"
    return operand.element


def work(loop: For) -> Dim:
    """How many elements a loop computes, folds inside of it counted in."""
    inside: Dim = 0 if any(isinstance(s, For) for s in loop.body) else 1
    for s in loop.body:
        if isinstance(s, For):
            inside = inside + work(s)
        elif isinstance(s, Fold):
            inside = inside + product(tuple(loop.extent for loop in s.loops))
    return loop.loop.extent * inside


def symbols_of_kernel(kernel: Kernel) -> list[Symbol]:
    """The symbols that sizes in a kernel are made of, by name."""
    found: dict[str, Symbol] = {}
    pending: list[Any] = [kernel]
    while pending:
        part = pending.pop()
        if isinstance(part, SymDim):
            found.update(symbols_of(part))
        elif isinstance(part, tuple):
            pending += part
        elif is_dataclass(part) and not isinstance(part, DType):
            pending += [getattr(part, f.name) for f in fields(part)]
    return [found[name] for name in sorted(found)]


def position_range(index: Index) -> tuple[float, float]:
    """The least and the greatest position, as far as sizes tell."""
    low, high = bounds(index.constant)
    for atom, coefficient in index.terms:
        top = _most(atom)
        ends = [c * t for c in bounds(coefficient) for t in (0.0, top)]
        ends = [0.0 if e != e else e for e in ends]  # 0 * inf
        low, high = low + min(ends), high + max(ends)
    return low, high


def _most(atom: Loop | Derived | Checked) -> float:
    """The greatest value of an atom; the least is 0."""
    if isinstance(atom, Loop):
        return max(bounds(atom.extent)[1] - 1, 0)
    if isinstance(atom, Derived) and atom.how == "quotient":
        return position_range(atom.index)[1] // max(_least(atom.size), 1)
    return max(bounds(atom.size)[1] - 1, 0)


def _least(size: Dim) -> float:
    return bounds(size)[0]
