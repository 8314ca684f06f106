"""Loops that only move what lies side by side, rendered as moves of memory.

Rows that do not begin at a line of the cache are copied by memcpy up to twice as fast as by
vectors, and short ones (3 colours, a complex number's two parts) are single moves. Bytes, integers
and booleans, which no vector of ours holds, go the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from glasshouse.backend.cxx.words import C_TYPE, index_text, number_text
from glasshouse.ir.dtype import NARROW
from glasshouse.lower.kernel.expr import Load, Number, Var
from glasshouse.lower.kernel.index import Index, Loop, of
from glasshouse.lower.kernel.statement import For, Let, Statement, Store


@dataclass(frozen=True)
class MovedRun:
    """A loop that writes neighbours: they lie side by side where they come from too, forwards or
    backwards, or are all the same."""

    loop: Loop
    name: str  # the variable that holds one of them; none where it is a number
    source: Load | Number
    store: Store

    def line(self, low: str, count: str) -> str:
        """The call for `count` elements from `low` on."""
        kind = C_TYPE[self.store.dtype]
        place = f"{self.store.buffer} + {self._at(self.store.index, low)}"
        if isinstance(self.source, Number):
            value = number_text(self.source.value, self.source.dtype)
            if self.source.dtype in NARROW:
                value = f"gh::from_scalar<{kind}>({value})"
        elif self.source.index.step(self.loop) == 0:
            value = f"{self.source.buffer}[{index_text(self.source.index)}]"
        else:
            verb = "copy" if self.source.index.step(self.loop) == 1 else "reverse"
            given = f"{self.source.buffer} + {self._at(self.source.index, low)}"
            return f"gh::{verb}_run<{kind}>({place}, {given}, {count});"
        return f"gh::fill_run<{kind}>({place}, {value}, {count});"

    def _at(self, index: Index, low: str) -> str:
        """The position of the first element."""
        if low == "0":
            return index_text(index.without(self.loop))
        return index_text(index.at(self.loop, of(Loop(low, self.loop.extent))))


def copy_in(body: Sequence[Statement]) -> tuple[str, Load | Number, Store] | None:
    """The element that a body reads, or makes of nothing, and writes as it is, with the name of
    the variable that holds it; None: it does more, or something else. The store has all ops."""
    *before, store = body
    if not isinstance(store, Store) or len(before) > 1:
        return None
    name, value = "", store.value
    for let in before:
        if not isinstance(let, Let) or value != Var(let.name, let.dtype):
            return None
        name, value = let.name, let.value
        store = replace(store, ops=(*let.ops, *store.ops))
    if not isinstance(value, (Load, Number)) or value.dtype is not store.dtype:
        return None
    return name, value, store


def run_of(nest: For) -> MovedRun | None:
    """The move that a loop is, if it is one."""
    found = copy_in(nest.body)
    if found is None:
        return None
    name, source, store = found
    if store.index.step(nest.loop) != 1:
        return None
    if isinstance(source, Load) and source.index.step(nest.loop) not in (-1, 0, 1):
        return None
    return MovedRun(nest.loop, name, source, store)
