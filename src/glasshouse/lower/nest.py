"""Loops over an iteration space, and at which depth each statement stands.

A `Nest` is a list of loops and, for each depth, the statements that stand inside that many of them.
It is built without roles. Neighbouring loops over which every access runs on evenly become one long
loop before the nest is made a tree of statements.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from functools import partial

from glasshouse.ir.dim import bounds
from glasshouse.ir.dtype import DType
from glasshouse.lower.kernel.expr import Apply, Expr, Load
from glasshouse.lower.kernel.index import Index, Loop
from glasshouse.lower.kernel.queries import depends, positions, variables
from glasshouse.lower.kernel.statement import Fold, For, Let, Ops, Role, Statement, Store

Inner = Let | Store | Fold


@dataclass
class Nest:
    """Loops over an iteration space, with statements at each depth."""

    loops: list[Loop]
    depth: list[list[Inner]] = field(default_factory=list)
    moved: dict[str, list[int]] = field(default_factory=dict)
    """Ops that only move what a variable holds: the statement that computes it does that too."""

    def __post_init__(self) -> None:
        self.depth = [[] for _ in range(len(self.loops) + 1)]

    def level_of(self, depends: Callable[[Loop], bool]) -> int:
        """The least depth at which everything that `depends` names is known."""
        return max((i + 1 for i, loop in enumerate(self.loops) if depends(loop)), default=0)

    @property
    def folds(self) -> list[Fold]:
        return [s for level in self.depth for s in level if isinstance(s, Fold)]

    def statements(self, roles: list[Role], of_folds: Role) -> list[Statement]:
        """The nest as a tree: what stands before the outermost loop, and that loop."""
        body: list[Statement] = [_as(s, of_folds) for s in self.depth[-1]]
        for level in range(len(self.loops) - 1, -1, -1):
            loop = For(self.loops[level], roles[level], tuple(body))
            body = [*(_as(s, of_folds) for s in self.depth[level]), loop]
        return body

    # ------------------------------------------------------------------------------------- hoisting
    def hoist(self, elements: Container[DType]) -> None:
        """Move what has no vector form, and what is made of it, out of the loops that do not change
        it. An index from data is then known before the loop that reads a row at it, and that loop
        can go over vectors; `elements` are the types that vectors hold."""
        innermost = len(self.loops)
        self.depth = [
            [x for s in level for x in (_opened(s, elements) if isinstance(s, Fold) else [s])]
            for level in self.depth
        ]
        levels = {
            s.name: at for at, level in enumerate(self.depth) for s in level if isinstance(s, Fold)
        }
        lets = [s for s in self.depth[-1] if isinstance(s, Let)]
        read = {s.name: variables(s.value) for s in lets}
        apart: set[str] = set()  # variables that no vector can hold, or made of one
        moved: set[str] = set()
        for s in lets:
            own = self.level_of(partial(depends, s))
            levels[s.name] = max([own, *(levels.get(name, innermost) for name in read[s.name])])
            if s.dtype not in elements or not apart.isdisjoint(read[s.name]):
                apart.add(s.name)
                if levels[s.name] < innermost:
                    moved.add(s.name)
        for s in reversed(lets):  # what they are made of goes with them
            if s.name in moved:
                moved.update(name for name in read[s.name] if name in read)
        for s in lets:
            if s.name in moved:
                self.depth[levels[s.name]].append(s)
        self.depth[-1] = [s for s in self.depth[-1] if not (isinstance(s, Let) and s.name in moved)]

    def lift(self) -> None:
        """Move what is computed of results around the innermost loop, and nothing in it changes, in
        front of it."""
        inner = {s.name for s in self.depth[-1] if isinstance(s, Let)}
        kept: list[Inner] = []
        for s in self.depth[-1]:
            if (
                isinstance(s, Let)
                and isinstance(s.value, Apply)
                and not depends(s, self.loops[-1])
                and inner.isdisjoint(variables(s.value))
            ):
                inner.discard(s.name)
                self.depth[-2].append(s)
            else:
                kept.append(s)
        self.depth[-1] = kept

    # -------------------------------------------------------------------------------------- turning
    def turn_folds(self) -> None:
        """Let each fold take in neighbours one after the other: of its loops, the one along which
        all that it reads lies side by side goes innermost. Folds may be taken in any order."""
        for level in self.depth:
            level[:] = [_turned(s) if isinstance(s, Fold) else s for s in level]

    # -------------------------------------------------------------------------------------- merging
    def merge(self) -> None:
        """Join neighbouring loops over which every access advances evenly."""
        joined = _Joined(self)
        at = len(self.loops) - 2
        while at >= 0:
            if not self.depth[at + 1] and joined.join(self.loops, at):
                del self.depth[at + 1]
            at -= 1
        folded: dict[str, tuple[Loop, ...]] = {}
        for fold in self.folds:
            loops = list(fold.loops)
            for at in range(len(loops) - 2, -1, -1):
                joined.join(loops, at)
            folded[fold.name] = tuple(loops)
        self._rewrite(joined, folded)

    def join_parts(self, parts: list[tuple[Loop, Loop, Loop]]) -> list[tuple[Loop, Loop, Loop]]:
        """Make one again of loops that were split into an outer and an inner one, where accesses
        allow it; gives the others, those that were split first in front."""
        joined = _Joined(self)
        left: list[tuple[Loop, Loop, Loop]] = []
        for loop, outer, inner in reversed(parts):
            # A half that was split again and stayed so is not there to be joined: what follows the
            # outer one is then another loop.
            whole = outer in self.loops and inner in self.loops
            if not (whole and joined.join(self.loops, self.loops.index(outer), loop.name)):
                left.insert(0, (loop, outer, inner))
        self._rewrite(joined, {})
        return left

    def _rewrite(self, joined: _Joined, folded: dict[str, tuple[Loop, ...]]) -> None:
        self.depth = [
            [self._rewritten(s, joined, folded) for s in statements] for statements in self.depth
        ]
        self.moved = {}

    def _rewritten(self, s: Inner, joined: _Joined, folded: dict[str, tuple[Loop, ...]]) -> Inner:
        if isinstance(s, Let):
            return self._let(s, joined)
        if isinstance(s, Store):
            index = joined.now(s.index)
            return s if index is s.index else replace(s, index=index)
        return replace(
            s,
            loops=folded.get(s.name, s.loops),
            body=tuple([self._let(let, joined) for let in s.body]),
            ops=self._ops(s.name, s.ops),
        )

    def _let(self, let: Let, joined: _Joined) -> Let:
        value = joined.rewritten(let.value)
        ops = self._ops(let.name, let.ops)
        if value is let.value and ops is let.ops:
            return let
        return Let(let.name, let.dtype, value, ops)

    def _ops(self, name: str, ops: Ops) -> Ops:
        more = self.moved.get(name)
        return tuple(sorted({*ops, *more})) if more else ops


_SIDE_BY_SIDE = 8
"""Turns of a fold's loop from which it pays as the innermost one: half a vector."""


def _turned(fold: Fold) -> Fold:
    read = [let.value.index for let in fold.body if isinstance(let.value, Load)]

    def is_even(loop: Loop) -> bool:
        steps = [index.step(loop) for index in read]
        return 1 in steps and all(step in (0, 1) for step in steps)

    if len(fold.loops) < 2 or is_even(fold.loops[-1]):
        return fold
    for loop in reversed(fold.loops[:-1]):
        if is_even(loop) and bounds(loop.extent)[0] >= _SIDE_BY_SIDE:
            return replace(fold, loops=(*(x for x in fold.loops if x is not loop), loop))
    return fold


def _opened(fold: Fold, elements: Container[DType]) -> list[Inner]:
    """A fold, and before it what its turns do not change and no vector holds, with what that is
    made of."""
    changing: set[str] = set()
    fixed: list[Let] = []
    for let in fold.body:
        read = variables(let.value)
        if changing.isdisjoint(read) and not any(depends(let, loop) for loop in fold.loops):
            fixed.append(let)
        else:
            changing.add(let.name)
    moved: set[str] = set()
    for let in reversed(fixed):
        if let.dtype not in elements or let.name in moved:
            moved |= {let.name, *variables(let.value)}
    before: list[Inner] = [let for let in fixed if let.name in moved]
    kept = tuple(let for let in fold.body if let.name not in moved)
    return [*before, replace(fold, body=kept)] if before else [fold]


def _as(s: Inner, role: Role) -> Inner:
    return replace(s, role=role) if isinstance(s, Fold) and s.role is not role else s


class _Joined:
    """The positions of a nest's accesses, as loops are joined one pair after the other.

    Every load of a nest is a `Let` by itself, so expressions need no walk.
    """

    def __init__(self, nest: Nest) -> None:
        self._at: dict[int, Index] = {}  # by identity of the index before
        self._fixed: set[Loop] = set()  # loops whose position is computed with
        for level in nest.depth:
            for s in level:
                if isinstance(s, Store):
                    self._at[id(s.index)] = s.index
                for let in s.body if isinstance(s, Fold) else (s,) if isinstance(s, Let) else ():
                    self._note(let.value)

    def _note(self, value: Expr) -> None:
        if isinstance(value, Load):
            self._at[id(value.index)] = value.index
            return
        for index in positions(value):
            self._fixed.update(a for a in index.atoms() if isinstance(a, Loop))

    def join(self, loops: list[Loop], at: int, name: str = "") -> bool:
        """Make two neighbours one; False if an access does not advance evenly over both."""
        outer, inner = loops[at], loops[at + 1]
        if outer in self._fixed or inner in self._fixed:
            return False
        for index in self._at.values():
            if index.coefficient(outer) != index.coefficient(inner) * inner.extent:
                return False
            if not index.is_affine and any(
                a in (outer, inner) for a in index.without(outer, inner).atoms()
            ):
                return False
        joined = Loop(name or inner.name, outer.extent * inner.extent)
        for key, index in self._at.items():
            if index.coefficient(inner) != 0:
                terms = [(joined if a == inner else a, c) for a, c in index.terms if a != outer]
                self._at[key] = Index(tuple(terms), index.constant)
        loops[at : at + 2] = [joined]
        return True

    def now(self, index: Index) -> Index:
        return self._at[id(index)]

    def rewritten(self, value: Expr) -> Expr:
        if not isinstance(value, Load):
            return value
        index = self._at[id(value.index)]
        return value if index is value.index else Load(value.buffer, index, value.dtype)
