"""Renders what one element is: loads, numbers, ops and choices, for single elements and vectors.

A vector holds neighbours along one loop; `t` tells how many lanes of the last one count. Elements
that do not lie side by side are brought together in memory first, one lane after the other.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from glasshouse.backend.cxx.spelling import SPELL
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import (
    C_TYPE,
    COMPUTE_TYPE,
    index_text,
    number_text,
    size_text,
    unless_empty,
)
from glasshouse.ir.dtype import NARROW, DType, bool_, float32, float64, int8, uint8
from glasshouse.lower.kernel.expr import Apply, Choose, Compare, Expr, Load, Number, Position, Var
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.queries import is_same_along
from glasshouse.lower.kernel.statement import Let, Parts, Statement, Store

VECTOR_TYPE: dict[DType, str] = {
    float64: "gh::vd",
    float32: "gh::vf",
    **dict.fromkeys(NARROW, "gh::vf"),
    int8: "gh::vf",  # between memory and (de)quantizing only: arithmetic on them would not wrap
    uint8: "gh::vf",
    bool_: "gh::vm",
}


@dataclass(frozen=True)
class Elements:
    """How elements of one body are written: singly, or as vectors along a loop.

    `single` are variables of single elements that stand outside of the vector loop.
    """

    along: Loop | None = None
    single: Container[str] = ()

    def put(self, out: KernelText, s: Statement) -> None:
        """One statement as a line."""
        match s:
            case Let():
                types = COMPUTE_TYPE if self.along is None else VECTOR_TYPE
                special = self._given(out, s) or self._by_lanes(out, s) or self._small(out, s)
                value = special or self.value(s.value)
                stays = self.along is not None and s.name in out.whole
                out.add(f"const {'auto' if stays else types[s.dtype]} {s.name} = {value};", s.ops)
                out.note_cast(s)
                out.small.note(s)
            case Store() if self.along is not None and s.index.step(self.along) != 1:
                self._store_by_lanes(out, s, self.along)
            case Store():
                out.add(self._store(out, s), s.ops)
            case Parts():
                size, outer = size_text(s.inner.extent), s.outer.name
                out.add(f"const int64_t {outer} = {s.loop.name} / {size};")
                out.add(f"const int64_t {s.inner.name} = {s.loop.name} - {outer} * {size};")
            case _:
                raise TypeError(f"no line for {type(s).__name__}")

    def value(self, e: Expr) -> str:
        """An expression."""
        match e:
            case Var():
                single = self.along is not None and e.name in self.single
                if not single:
                    return e.name
                return f"{'gh::splat' if e.dtype is bool_ else VECTOR_TYPE[e.dtype]}({e.name})"
            case Load():
                return self._load(e)
            case Apply():
                return SPELL[e.op](e, [self.value(a) for a in e.args])
            case Number():
                text = number_text(e.value, e.dtype)
                if self.along is None:
                    return text
                return f"{'gh::splat' if e.dtype is bool_ else VECTOR_TYPE[e.dtype]}({text})"
            case Position():
                return _position(e)
            case Choose():
                tests = " && ".join(map(_compare, e.conditions))
                otherwise = self.value(e.otherwise)
                otherwise = f"({otherwise})" if isinstance(e.otherwise, Choose) else otherwise
                return f"({tests}) ? {self.value(e.then)} : {otherwise}"

    def _given(self, out: KernelText, s: Let) -> str:
        """What an argument holds, and what is quantized with some; nothing for all else."""
        if s.name in out.given:
            text = out.given[s.name]
            return text if self.along is None else f"{VECTOR_TYPE[s.dtype]}({text})"
        if self.along is not None and s.name in out.quantizers and isinstance(s.value, Apply):
            return f"{out.quantizers[s.name]}({self.value(s.value.args[0])})"
        return ""

    def _small(self, out: KernelText, s: Let) -> str:
        """A place made of a float that is not large; nothing for all else."""
        return out.small.cast(s) if self.along is None else ""

    def _by_lanes(self, out: KernelText, s: Let) -> str:
        """A vector of what lies apart, or of a choice by position; nothing for all else."""
        if self.along is None:
            return ""
        lanes, name = f"{s.name}at", self.along.name
        match s.value:
            case Load(_, index) if index.step(self.along) not in (0, 1):
                kind = COMPUTE_TYPE[s.dtype]
                one = Elements().value(s.value)
            case Choose(conditions) if not is_same_along(s.value, self.along):
                kind, one = "bool", " && ".join(map(_compare, conditions))
            case _:
                return ""
        out.add(f"alignas(64) {kind} {lanes}[gh::W];", s.ops)
        with out.block(f"for (int64_t lane_ = 0, first_ = {name}; lane_ < t.n; ++lane_) {{", "}"):
            out.add(f"const int64_t {name} = first_ + lane_;")
            out.add(f"{lanes}[lane_] = {one};", s.ops)
        if isinstance(s.value, Choose):
            parts = ", ".join(map(self.value, (s.value.then, s.value.otherwise)))
            return f"gh::select(gh::load_mask({lanes}, t), {parts})"
        return f"gh::{'load_mask' if s.dtype is bool_ else 'load'}({lanes}, t)"

    def _load(self, load: Load) -> str:
        buffer, dtype, place = load.buffer, load.dtype, index_text(load.index)
        text = f"{buffer}[{place}]"
        if self.along is None:
            text = f"gh::to_scalar({text})" if dtype in NARROW else text
            return unless_empty(load.index, text, number_text(0, dtype))
        if load.index.coefficient(self.along) != 0:
            text = f"gh::{'load_mask' if dtype is bool_ else 'load'}({buffer} + {place}, t)"
        elif dtype is bool_:
            text = f"gh::splat({text})"
        else:
            text = f"{VECTOR_TYPE[dtype]}(gh::to_scalar({text}))"
        none = "gh::splat(false)" if dtype is bool_ else f"{VECTOR_TYPE[dtype]}(0.0f)"
        return unless_empty(load.index, text, none)

    def stored(self, out: KernelText, s: Store) -> str:
        """The value of a store, which rounds: what was cast to its type is not rounded before."""
        value = s.value
        if isinstance(value, Var) and value.name in out.casts:
            dtype, source = out.casts[value.name]
            value = source if dtype is s.dtype else value
        return self.value(value)

    def _store_by_lanes(self, out: KernelText, s: Store, along: Loop) -> None:
        """A vector of what is to lie apart."""
        lanes, name = out.fresh("apart"), along.name
        verb = "gh::store_mask" if s.dtype is bool_ else "gh::store"
        out.add(f"alignas(64) {C_TYPE[s.dtype]} {lanes}[gh::W];", s.ops)
        out.add(f"{verb}({lanes}, {self.stored(out, s)}, t);", s.ops)
        with out.block(f"for (int64_t lane_ = 0, first_ = {name}; lane_ < t.n; ++lane_) {{", "}"):
            out.add(f"const int64_t {name} = first_ + lane_;")
            out.add(f"{s.buffer}[{index_text(s.index)}] = {lanes}[lane_];", s.ops)

    def _store(self, out: KernelText, s: Store) -> str:
        place, value = index_text(s.index), self.stored(out, s)
        if self.along is not None:
            verb = "gh::store_mask" if s.dtype is bool_ else "gh::store"
            return f"{verb}({s.buffer} + {place}, {value}, t);"
        narrow = f"gh::from_scalar<{C_TYPE[s.dtype]}>({value})" if s.dtype in NARROW else value
        return f"{s.buffer}[{place}] = {narrow};"


def _position(e: Position) -> str:
    return f"{COMPUTE_TYPE[e.dtype]}({index_text(e.index)})"


def _compare(c: Compare) -> str:
    left, right = index_text(c.left), index_text(c.right)
    if c.op == "inside":
        return f"uint64_t({left}) < uint64_t({right})"
    return f"{left} {c.op} {right}"
