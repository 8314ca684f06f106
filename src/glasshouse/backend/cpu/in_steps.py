"""Epilogues of whole sums: computed in steps of the next quantized value, by columns.

What becomes bytes is a sum of products mostly: whole sums times what a step of them means, a bias,
and bytes that are dequantized. Its division by the scale is folded into what is multiplied, all of
which a column or a number decides, once for all rows of a tile: of the eight operations that such a
sum and its division took, two are left. Results are what float32 makes of the real numbers, so they
differ from the exact ones where those lie within its rounding of half a step.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from glasshouse.backend.cpu.byte_tables import ByteTable
from glasshouse.backend.cxx.elements import Elements
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import number_text
from glasshouse.ir.dtype import float32
from glasshouse.lower.kernel.expr import Apply, Expr, Number, Var
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.queries import loads, positions, variables
from glasshouse.lower.kernel.statement import Let, Ops, Parts, Statement, Store, Tile


@dataclass(frozen=True)
class Whole:
    """How real numbers are made of whole sums: (sums - `taken`) * `unit`, vectors that the column
    alone decides; nothing is taken where that is empty."""

    unit: str
    taken: str = ""


@dataclass(frozen=True)
class QuantizedSum:
    """A sum in front of a `quantize`: the names of its terms, and the lets that nothing else needs.

    `real` are those that are neither decided by the column nor bytes; `bytes_` are `dequantize`s.
    Of a sum behind which a `relu` stands, no less than 0 steps are taken.
    """

    is_relu: bool
    has_sums: bool
    columns: tuple[str, ...]
    bytes_: tuple[Let, ...]
    real: tuple[str, ...]
    ops: Ops

    @property
    def reads(self) -> set[str]:
        read = {name for let in self.bytes_ for name in _first(let)}
        return read | {*self.columns, *self.real}


class InSteps:
    """The statements of one epilogue, in two parts: of a column, and of each of its rows."""

    def __init__(
        self, out: KernelText, tile: Tile, whole: Whole, tables: dict[str, ByteTable]
    ) -> None:
        self.out, self.tile, self.whole, self.tables = out, tile, whole, tables
        self.lets = {s.name: s for s in tile.epilogue if isinstance(s, Let)}
        self.columns = _of_columns(tile)
        self.uses = Counter(name for s in tile.epilogue for name in self._plainly_read(s))
        found = {name: self._chain(s) for name, s in self.lets.items() if self._is_quantize(name)}
        self.chains = {name: chain for name, chain in found.items() if chain is not None}
        folded = Counter(n for c in self.chains.values() for b in c.bytes_ for n in _first(b))
        self.rounded = {
            name for name in self.chains
            if 0 < folded[name] == self.uses[name] and all(map(self._gives_back, self._of(name)))
        }  # fmt: skip
        self.kept = self._needed()

    # ------------------------------------------------------------------------------ what there is
    def _plainly_read(self, s: Statement) -> list[str]:
        """What a statement reads as it stands, as often as it does."""
        if isinstance(s, Let) and s.name in self.tables:
            return [self.tables[s.name].first.name]
        return _read(s.value) if isinstance(s, (Let, Store)) else []

    def _is_quantize(self, name: str) -> bool:
        return name in self.out.quantizers and name not in self.tables

    def _chain(self, quantize: Let) -> QuantizedSum | None:
        """The sum that a `quantize` reads, if it has terms that are scaled anyway."""
        columns: list[str] = []
        bytes_: list[Let] = []
        real: list[str] = []
        ops = set(quantize.ops)
        has_sums = False
        assert isinstance(quantize.value, Apply), "quantizers are made for them alone"
        first = quantize.value.args[0]
        relu = self._only_use(first, "relu")
        pending: list[Expr] = [first] if relu is None else [*relu.args]
        while pending:
            e = pending.pop()
            if not isinstance(e, Var):
                return None
            let = self.lets.get(e.name)
            if e.name == self.tile.result:
                if has_sums:
                    return None
                has_sums = True
            elif let is None or let.dtype is not float32:
                return None
            elif e.name in self.columns:
                columns.append(e.name)
            elif (add := self._only_use(e, "add")) is not None:
                pending += add.args
                ops |= {*let.ops}
            elif self.uses[e.name] == 1 and self._scale_and_zero(let) is not None:
                bytes_.append(let)
                ops |= {*let.ops}
            else:
                real.append(e.name)
        if not has_sums and not bytes_:
            return None
        ops |= {*self.tile.ops} if has_sums else set()
        ops |= (
            {*self.lets[first.name].ops} if relu is not None and isinstance(first, Var) else set()
        )
        named = tuple(columns), tuple(bytes_), tuple(real), tuple(sorted(ops))
        return QuantizedSum(relu is not None, has_sums, *named)

    def _only_use(self, e: Expr, op: str) -> Apply | None:
        """What made a variable that nothing else reads, if that was this op."""
        let = self.lets.get(e.name) if isinstance(e, Var) else None
        if let is None or self.uses[let.name] != 1 or let.dtype is not float32:
            return None
        return let.value if isinstance(let.value, Apply) and let.value.op == op else None

    def _scale_and_zero(self, let: Let) -> tuple[str, str] | None:
        """The numbers of a `dequantize` of a variable, as text; None for all else."""
        e = let.value
        if not isinstance(e, Apply) or e.op != "dequantize" or not _first(let):
            return None
        scale, zero = (self._number(a) for a in e.args[1:])
        return None if scale is None or zero is None else (scale, zero)

    def _number(self, e: Expr) -> str | None:
        if isinstance(e, Var) and e.name in self.out.given:
            return self.out.given[e.name]
        value = self.lets[e.name].value if isinstance(e, Var) and e.name in self.lets else e
        return number_text(value.value, float32) if isinstance(value, Number) else None

    def _of(self, name: str) -> list[Let]:
        return [b for c in self.chains.values() for b in c.bytes_ if _first(b) == {name}]

    def _gives_back(self, dequantize: Let) -> bool:
        """Whether bytes are dequantized as they were quantized: then their steps are enough."""
        (name,) = _first(dequantize)
        made = self.lets[name].value
        assert isinstance(made, Apply)
        numbers = [self._number(a) for a in made.args[1:]]
        return None not in numbers and numbers == list(self._scale_and_zero(dequantize) or ())

    def _needed(self) -> list[Statement]:
        """The statements without those that chains and tables replace."""
        used: set[str] = set()
        kept: list[Statement] = []
        for s in reversed(self.tile.epilogue):
            if isinstance(s, Let) and s.name not in used:
                continue
            chain = self.chains.get(s.name) if isinstance(s, Let) else None
            used.update(self._plainly_read(s) if chain is None else chain.reads)
            kept.append(s)
        self.needs_result = self.tile.result in used
        return kept[::-1]

    # ------------------------------------------------------------------------------------- lines
    def put_columns(self, elements: Elements) -> None:
        """What the column alone decides."""
        out, number = self.out, self.out.tile
        if self.whole.taken:
            out.add(f"const gh::vi taken{number}_ = {self.whole.taken};", self.tile.ops)
        out.add(f"const gh::vf unit{number}_ = {self.whole.unit};", self.tile.ops)
        for s in self.kept:
            if (isinstance(s, Let) and s.name in self.columns) or self._parts_column(s):
                elements.put(out, s)
        for name, chain in self.chains.items():
            scale = f"{out.quantizers[name]}.scale"
            if chain.has_sums:
                out.add(f"const gh::vf {name}unit = unit{number}_ / gh::vf({scale});", chain.ops)
            for b in chain.bytes_:
                step, _ = self._scale_and_zero(b) or ("", "")
                out.add(f"const gh::vf {b.name}unit = gh::vf({step} / {scale});", chain.ops)
            if chain.columns:
                text = f"({' + '.join(chain.columns)}) / gh::vf({scale})"
                out.add(f"const gh::vf {name}more = {text};", chain.ops)

    def put_rows(self, elements: Elements) -> None:
        """The rest."""
        out = self.out
        if self.needs_result:
            real = f"gh::to_float({self._sums}) * unit{out.tile}_"
            out.add(f"const gh::vf {self.tile.result} = {real};", self.tile.ops)
        for s in self.kept:
            if isinstance(s, Let) and s.name in self.columns:
                continue
            if isinstance(s, Let) and s.name in self.tables:
                self.tables[s.name].look_up(out)
            elif isinstance(s, Let) and s.name in self.chains:
                self._put_chain(s, self.chains[s.name])
            elif not self._parts_column(s):
                elements.put(out, s)

    def _put_chain(self, s: Let, chain: QuantizedSum) -> None:
        out, steps = self.out, self.out.quantizers[s.name]
        terms = [(f"gh::to_float({self._sums})", f"{s.name}unit")] if chain.has_sums else []
        terms += [(self._bytes(b), f"{b.name}unit") for b in chain.bytes_]
        terms += [(name, f"gh::vf({steps}.inverse)") for name in chain.real]
        text = f"{s.name}more" if chain.columns else ""
        for term, unit in terms:
            text = f"gh::fma({term}, {unit}, {text})" if text else f"{term} * {unit}"
        text = f"gh::relu({text})" if chain.is_relu else text
        if s.name in self.rounded:
            out.add(f"const gh::vf {s.name} = {steps}.rounded({text});", chain.ops)
        else:
            kind = "auto" if s.name in out.whole else "gh::vf"
            out.add(f"const {kind} {s.name} = {steps}.of_steps({text});", chain.ops)

    def _bytes(self, dequantize: Let) -> str:
        """The steps that bytes stand for."""
        (name,) = _first(dequantize)
        _, zero = self._scale_and_zero(dequantize) or ("", "")
        if name in self.rounded or zero == "0.0f":
            return name if name not in self.out.whole or name in self.rounded else f"gh::vf({name})"
        return f"(gh::vf({name}) - gh::vf({zero}))"

    @property
    def _sums(self) -> str:
        return f"whole - taken{self.out.tile}_" if self.whole.taken else "whole"

    def _parts_column(self, s: Statement) -> bool:
        return isinstance(s, Parts) and s.loop == self.tile.variables[-1]


def _of_columns(tile: Tile) -> set[str]:
    """The variables that the last index of a tile alone decides."""
    known: set[Loop] = {tile.variables[-1]}
    found: set[str] = set()
    for s in tile.epilogue:
        if isinstance(s, Parts) and s.loop in known:
            known |= {s.outer, s.inner}
        elif isinstance(s, Let) and _is_decided(s, known, found):
            found.add(s.name)
    return found


def _is_decided(let: Let, known: set[Loop], before: set[str]) -> bool:
    places = [*(load.index for load in loads(let.value)), *positions(let.value)]
    return variables(let.value) <= before and all(set(p.atoms()) <= known for p in places)


def _read(e: Expr) -> list[str]:
    if isinstance(e, Var):
        return [e.name]
    return [n for a in e.args for n in _read(a)] if isinstance(e, Apply) else [*variables(e)]


def _first(let: Let) -> set[str]:
    """The variable that an op reads first; none where that is something else."""
    first = let.value.args[0] if isinstance(let.value, Apply) else None
    return {first.name} if isinstance(first, Var) else set()
