"""Loops whose elements are chosen by their position, as one loop for each range of positions.

A triangle of a matrix is a copy up to the diagonal and zeros behind it; a diagonal is zeros, one
element, zeros. Where the ranges begin is known when a loop is entered. Chosen one by one, the
elements of a diagonal of 512 took 22 us, and take 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from glasshouse.lower.kernel.expr import Apply, Choose, Compare, Expr, Load, Number, Var
from glasshouse.lower.kernel.index import GUARDED, Derived, Index, Loop
from glasshouse.lower.kernel.queries import is_same_along, parts, variables
from glasshouse.lower.kernel.statement import For, Let, Statement, Store

MOST_POINTS = 4
MOST_STATEMENTS = 24
"""Of a body, each range of which is code of its own."""


@dataclass(frozen=True)
class _Side:
    """A condition that holds for positions below a point, or from it on."""

    point: Index
    below: bool


@dataclass(frozen=True)
class Ranges:
    """Points where a loop falls apart, in order, and the body of each of the ranges."""

    points: tuple[Index, ...]
    bodies: tuple[tuple[Statement, ...], ...]


def ranges_of(nest: For) -> Ranges | None:
    """How a loop falls apart; None: nothing in it is chosen by position, or nobody knows where.

    Conditions whose points are at unknown distances from the first one's are left to the ranges.
    """
    if len(nest.body) > MOST_STATEMENTS:
        return None
    sides: dict[Compare, tuple[_Side, ...]] = {}
    for s in nest.body:
        if not isinstance(s, (Let, Store)):
            return None
        for condition in _conditions(s.value, nest.loop):
            found = _sides(condition, nest.loop)
            if found is None:
                return None
            sides[condition] = found
    points = _ordered([side.point for each in sides.values() for side in each])
    if not points or len(points) > MOST_POINTS:
        return None
    numbers = {point: number for number, point in enumerate(points)}
    known = {c: each for c, each in sides.items() if all(s.point in numbers for s in each)}
    if not known:
        return None
    bodies = []
    for part in range(len(points) + 1):
        holds = {
            condition: all((part <= numbers[s.point]) == s.below for s in each)
            for condition, each in known.items()
        }
        bodies.append(_body(nest.body, holds))
    return Ranges(points, tuple(bodies))


def _conditions(value: Expr, loop: Loop) -> Iterator[Compare]:
    """The conditions that change along a loop, in all choices of an expression."""
    for choice in _choices(value):
        for c in choice.conditions:
            if not is_same_along(Choose((c,), choice.then, choice.then), loop):
                yield c


def _sides(condition: Compare, loop: Loop) -> tuple[_Side, ...] | None:
    left, right = condition.left, condition.right
    parts = [_side("<" if condition.op == "inside" else condition.op, left + -right, loop)]
    if condition.op == "inside":
        parts.append(_side(">=", left, loop))
    found = tuple(p for p in parts if p is not None)
    return found if len(found) == len(parts) else None


def _side(op: str, apart: Index, loop: Loop) -> _Side | None:
    """Where a difference of positions is < 0, <= 0 or >= 0."""
    step = apart.step(loop)
    if step not in (1, -1):
        return None
    rest = apart.without(loop)
    if step == 1:
        return _Side(-rest + 1 if op == "<=" else -rest, op != ">=")
    return _Side(rest if op == "<=" else rest + 1, op == ">=")


def _ordered(points: Sequence[Index]) -> tuple[Index, ...]:
    """Those at a known distance from the first one, in order."""
    by_distance: dict[int, Index] = {}
    for point in points:
        apart = (point + -points[0]).constant
        if not (point + -points[0]).terms and isinstance(apart, int):
            by_distance[apart] = point
    return tuple(by_distance[apart] for apart in sorted(by_distance))


def _body(body: Sequence[Statement], holds: dict[Compare, bool]) -> tuple[Statement, ...]:
    """What is left of a body in a range; a store computes what led to it, as it does for moves."""
    values: dict[str, Expr] = {}
    kept: list[Let | Store] = []
    for s in body:
        assert isinstance(s, (Let, Store))
        value = _chosen(s.value, holds, values)
        if isinstance(s, Let) and isinstance(value, (Var, Number)):
            values[s.name] = value
        kept.append(replace(s, value=value))
    used: set[str] = set()
    out: list[Statement] = []
    dropped: list[int] = []
    chooses = False
    for s in reversed(kept):
        if isinstance(s, Let) and s.name not in used:
            dropped += s.ops
            continue
        used |= variables(s.value)
        chooses = chooses or any(True for _ in _choices(s.value))
        out.append(s)
    out.reverse()
    done = [
        replace(s, ops=tuple(sorted({*s.ops, *dropped}))) if isinstance(s, Store) else s
        for s in out
    ]
    return tuple(done if chooses else [_unguarded(s) for s in done])


def _choices(value: Expr) -> Iterator[Choose]:
    return (part for part in parts(value) if isinstance(part, Choose))


def _chosen(value: Expr, holds: dict[Compare, bool], values: dict[str, Expr]) -> Expr:
    if isinstance(value, Var):
        known = values.get(value.name, value)
        return known if known.dtype is value.dtype else value
    if isinstance(value, Apply):
        return replace(value, args=tuple(_chosen(a, holds, values) for a in value.args))
    if isinstance(value, Choose):
        if any(holds.get(c) is False for c in value.conditions):
            return _chosen(value.otherwise, holds, values)
        left = tuple(c for c in value.conditions if c not in holds)
        then = _chosen(value.then, holds, values)
        otherwise = _chosen(value.otherwise, holds, values)
        return Choose(left, then, otherwise) if left and then != otherwise else then
    return value


def _unguarded(s: Statement) -> Statement:
    """A load that is used wherever it stands lies inside."""
    if not isinstance(s, Let) or not isinstance(s.value, Load):
        return s
    index = Index((), s.value.index.constant)
    for atom, coefficient in s.value.index.terms:
        inside = isinstance(atom, Derived) and atom.how == GUARDED
        place = atom.index if inside and isinstance(atom, Derived) else Index(((atom, 1),))
        index = index + place * coefficient
    return replace(s, value=replace(s.value, index=index))
