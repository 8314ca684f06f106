"""Which statements of a kernel stand in one function, and each nest as a chain of its loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glasshouse.ir.dtype import bool_
from glasshouse.lower.kernel.expr import Apply
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.queries import expressions, loads, simple, variables
from glasshouse.lower.kernel.statement import Fold, For, Let, Statement, Store, Tile


@dataclass(frozen=True)
class Chain:
    """A nest as a chain: what stands before each loop, outermost first, and in the innermost."""

    loops: tuple[Loop, ...]
    bodies: tuple[tuple[Statement, ...], ...]  # one more than loops

    @property
    def fold_levels(self) -> list[int]:
        return [
            level for level, body in enumerate(self.bodies)
            if any(isinstance(s, Fold) for s in body)
        ]  # fmt: skip


def groups(body: Sequence[Statement]) -> list[list[Statement]]:
    """Statements of a kernel that stand in one function: those of a nest, or one tile; single
    elements with all that read the same variables."""
    out: list[list[Statement]] = []
    pending: list[Statement] = []
    last_uses = _last_uses(body)
    needed = 0  # the last statement that reads a variable of those that are pending
    for number, s in enumerate(body):
        if not isinstance(s, (For, Let, Store, Fold)):
            out.append([s])
            continue
        pending.append(s)
        if isinstance(s, (Let, Fold)):
            needed = max(needed, last_uses.get(s.name, 0))
        follows = body[number + 1] if number + 1 < len(body) else None
        ends = isinstance(s, Store) and not isinstance(follows, Store) and number >= needed
        if isinstance(s, For) or ends:
            out.append(pending)
            pending = []
    if pending:
        out.append(pending)
    return out


def _last_uses(body: Sequence[Statement]) -> dict[str, int]:
    """The number of the last statement that reads each variable."""
    return {
        name: number
        for number, s in enumerate(body)
        for inner in simple([s])
        for value in expressions(inner)
        for name in variables(value)
    }


def _plain(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """A body in which folds of one element, without loops, are that element."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Fold) and not s.loops:
            truth = s.op in ("any", "all") and s.element.dtype is not bool_
            cast = Apply("cast", (s.element,), bool_, (("dtype", bool_),))
            out += [*s.body, Let(s.name, s.dtype, cast if truth else s.element, s.ops)]
        else:
            out.append(s)
    return tuple(out)


def chain_of(statements: Sequence[Statement]) -> Chain:
    """The chain of loops that a nest is."""
    loops: list[Loop] = []
    bodies: list[tuple[Statement, ...]] = []
    here: Sequence[Statement] = statements
    while True:
        inner = here[-1] if here and isinstance(here[-1], For) else None
        if inner is None:
            assert not any(isinstance(s, For) for s in here), "a nest holds one loop at each depth"
            bodies.append(_plain(here))
            return Chain(tuple(loops), tuple(bodies))
        bodies.append(_plain(here[:-1]))
        loops.append(inner.loop)
        here = inner.body


def beside(found: Sequence[list[Statement]]) -> list[list[list[Statement]]]:
    """The groups of a kernel, those together that one function computes: neighbours without folds,
    none of which reads or writes what another writes."""
    out: list[list[list[Statement]]] = []
    written: set[str] = set()
    for group in found:
        plain = not isinstance(group[0], Tile) and not chain_of(group).fold_levels
        stores = {s.buffer for s in simple(group) if isinstance(s, Store)}
        reads = {
            load.buffer for s in simple(group) for value in expressions(s) for load in loads(value)
        }
        if plain and written and not written & (stores | reads):
            out[-1].append(group)
        else:
            out.append([group])
            written = set()
        written = written | stores if plain else set()
    return out
