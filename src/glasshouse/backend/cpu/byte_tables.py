"""Byte tables: what a tile computes between one quantised element and the next is looked up.

An element that was just quantised is one of 256. What is computed from it alone, up to the next
`quantize`, is a table of 256 bytes, which the kernel makes when it begins, with the very statements
that would otherwise run for each element. A look-up takes about 6 instructions, a GELU between
bytes about 50: a product of 512 multiplications with one behind it was a third slower for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glasshouse.backend.cxx.elements import Elements
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE
from glasshouse.ir.dim import bounds, product
from glasshouse.ir.op import REGISTRY
from glasshouse.lower.kernel.expr import Apply, Load, Number, Var
from glasshouse.lower.kernel.index import ZERO
from glasshouse.lower.kernel.queries import expressions, simple, variables
from glasshouse.lower.kernel.statement import Let, Ops, Statement, Store, Tile
from glasshouse.lower.quant import BYTES

LEAST_COST = 16.0
"""Operations between the two bytes (`Traits.cost`) from which a look-up is cheaper."""
LEAST_ELEMENTS = 16 * 256
"""Elements from which making the table does not count."""


@dataclass(frozen=True)
class ByteTable:
    """`first` is the byte that goes in, `last` the one that comes out: the end of `lets`."""

    first: Let
    last: Let
    lets: tuple[Let, ...]

    @property
    def name(self) -> str:
        return f"{self.last.name}table"

    def make(self, out: KernelText, elements: Elements) -> None:
        """The lines that fill the table."""
        kinds = f"{C_TYPE[self.first.dtype]}, {C_TYPE[self.last.dtype]}"
        ops: Ops = tuple(sorted({op for let in self.lets for op in let.ops}))
        out.add(f"const gh::ByteTable<{kinds}> {self.name}([=](gh::vf {self.first.name}) {{", ops)
        out.indent += "  "
        for let in self.lets:
            elements.put(out, let)
        out.add(f"return {self.last.name};", self.last.ops)
        out.indent = out.indent[:-2]
        out.add("});")

    def look_up(self, out: KernelText) -> None:
        """The line that takes an element from the table."""
        ops: Ops = tuple(sorted({op for let in self.lets for op in let.ops}))
        out.add(f"const gh::vf {self.last.name} = {self.name}({self.first.name});", ops)


def byte_tables(tile: Tile) -> dict[str, ByteTable]:
    """The tables of a tile's epilogue, by the variable that is looked up."""
    if bounds(product(tile.shape))[0] < LEAST_ELEMENTS:
        return {}
    lets = {s.name: s for s in tile.epilogue if isinstance(s, Let)}
    found = (_between(let, lets) for let in lets.values() if _is_byte(let))
    return {table.last.name: table for table in found if table is not None}


def still_needed(statements: Sequence[Statement], tables: dict[str, ByteTable]) -> list[Statement]:
    """The statements without those that nothing but a table needs."""
    used: set[str] = set()
    kept: list[Statement] = []
    for s in reversed(statements):
        if isinstance(s, Let) and s.name not in used:
            continue
        if isinstance(s, Let) and s.name in tables:
            used.add(tables[s.name].first.name)
        elif isinstance(s, (Let, Store)):
            used |= {name for e in expressions(s) for name in variables(e)}
        else:
            used |= {name for x in simple([s]) for e in expressions(x) for name in variables(e)}
        kept.append(s)
    return kept[::-1]


def _is_byte(let: Let) -> bool:
    return isinstance(let.value, Apply) and let.value.op == "quantize" and let.dtype in BYTES


def _between(last: Let, lets: dict[str, Let]) -> ByteTable | None:
    """What makes a byte from one other byte alone, if that is much."""
    inside: dict[str, Let] = {}
    firsts: set[str] = set()
    pending = [last.name]
    while pending:
        name = pending.pop()
        if name in inside or name in firsts:
            continue
        let = lets.get(name)
        if let is None:
            return None  # the tile's own result
        if let is not last and _is_byte(let):
            firsts.add(name)
            continue
        if not _is_everywhere(let):
            return None
        inside[name] = let
        pending += variables(let.value)
    if len(firsts) != 1:
        return None
    ops = [REGISTRY[x.value.op] for x in inside.values() if isinstance(x.value, Apply)]
    if sum(op.traits.cost or 1.0 for op in ops) < LEAST_COST:
        return None
    ordered = tuple(let for name, let in lets.items() if name in inside)
    return ByteTable(lets[firsts.pop()], last, ordered)


def _is_everywhere(let: Let) -> bool:
    """Whether a statement computes the same at every place, from what it reads by name."""
    match let.value:
        case Load(_, index):
            return index == ZERO
        case Number() | Var():
            return True
        case Apply(_, args):
            return all(isinstance(a, (Var, Number)) for a in args)
        case _:
            return False
