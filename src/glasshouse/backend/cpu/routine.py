"""What the CPU backend has for a tile: its text, the memory that it needs, forms of constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glasshouse.backend.cpu.processor import widens_bfloat16
from glasshouse.backend.cpu.recipe import Recipe, dot_parts
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE
from glasshouse.ir.dtype import DType, bfloat16, float16, float32, float64, int8
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Form, Operand, Tile
from glasshouse.lower.target import Needs, needs_nothing


@dataclass(frozen=True)
class Routine:
    """How a tile is rendered, what it needs, and how the kernel that holds it is compiled."""

    render: Callable[[KernelText, Tile], None]
    needs: Callable[[Tile], Needs] = needs_nothing
    recipe: Callable[[Tile], Recipe] = lambda tile: Recipe()


@dataclass(frozen=True)
class FormSpelling:
    """How a constant is brought into another form: the body of a function of (threads, source,
    out), and the bytes of `out`, which depend on the width of the machine's vectors; and a header
    apart that both need."""

    body: Callable[[Form], str]
    nbytes: Callable[[Form], str]
    header: str = ""


def form_function(form: Form, body: str) -> str:
    """The function that makes a form, without its name."""
    source = f"const {C_TYPE[form.dtype]}* source"
    return f"(gh::ThreadPool& threads, {source}, void* out) {{ {body} }}"


def prepared(out: KernelText, form: Form, spelling: FormSpelling) -> str:
    """The variable that points to a form: for a constant a parameter, otherwise made here."""
    if form.once:
        return out.form(form)
    name = out.fresh("prepared")
    out.add(f"void* {name} = gh::scratch<6>({spelling.nbytes(form)});")
    out.add(f"[]{form_function(form, spelling.body(form))}(*ctx.pool, {form.buffer}, {name});")
    return name


def buffer_of(operand: Operand) -> str:
    """The buffer that an operand is in."""
    return view(operand).buffer


_DOT = {
    float32: "gh::DotF32",
    float16: "gh::DotF32",  # widened as it is packed
    float64: "gh::DotF64",
    bfloat16: "gh::TilesBF16",
    int8: "gh::TilesI8",
}
_IN_REGISTERS = {bfloat16: "gh::DotBF16", int8: "gh::DotI8"}


def dot_kind(dtype: DType, tiles: bool = True, narrow: bool = False) -> str:
    """The kind of multiply-add with which products of a type are computed; `tiles`: on AMX tiles
    where the machine has them; `narrow`: of bfloat16 on any machine, for few rows, which take as
    long as reading the weights does."""
    if dtype is bfloat16 and not narrow and widens_bfloat16():
        return _DOT[float32]
    return _DOT[dtype] if tiles else _IN_REGISTERS.get(dtype, _DOT[dtype])


def passing_dot(dtype: DType) -> str:
    """The same for operands that are packed in each call."""
    return "gh::DotPassingBF16" if dtype is bfloat16 else dot_kind(dtype)


def dot_recipe(seconds: float, headers: tuple[str, ...] = ()) -> Callable[[Tile], Recipe]:
    """Of a routine that multiplies elements of its first operand's type, widened or not."""

    def recipe(tile: Tile) -> Recipe:
        dtype = tile.operands[0].element.dtype
        passing = dot_parts(float32) if dtype is bfloat16 else ()
        parts = tuple(dict.fromkeys((*passing, *dot_parts(dtype))))
        return Recipe(parts, seconds, headers=headers)

    return recipe
