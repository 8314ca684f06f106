"""Products of groups of rows on CPUs: a product for each group that has rows, panels packed once
where matrices are constant, otherwise group by group."""

from __future__ import annotations

from glasshouse.backend.cpu.routine import (
    FormSpelling,
    Routine,
    buffer_of,
    dot_kind,
    dot_recipe,
    passing_dot,
)
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import bfloat16, float16, float32, float64
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Form, Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole

GROUPS = "gemm_groups"


def grouped(builder: KernelBuilder, node: Node) -> None:
    """Add the products, from memory to memory."""
    if node.inputs[0].type.dtype not in (float32, float64, bfloat16, float16):
        raise Unsupported(f"no products of groups of {node.inputs[0].type.dtype}")
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, GROUPS, operands, writes=write_all(builder, node))


# ------------------------------------------------------------------------------------ rendering
def _steps(tile: Tile) -> tuple[Dim, Dim]:
    """Strides of rows and columns of a matrix."""
    return (1, tile.operands[0].shape[1]) if tile.attr("turned") else (tile.shape[1], 1)


def _needs(tile: Tile) -> Needs:
    x, w, _ = tile.operands
    depth, columns = x.shape[1], tile.shape[1]
    if w.constant:
        attrs = (w.shape[0], *_steps(tile), depth, columns)
        return (Form(buffer_of(w), GROUPS, w.element.dtype, attrs, True),), ()
    # Columns rounded up to a panel of 32, depth to a unit of 4; halves lie there as float32.
    width = max(w.element.dtype.itemsize, 4)
    return (), (Scratch("panels", (columns + 63) // 32 * 32 * (depth + 4) * width),)


def _groups(out: KernelText, tile: Tile) -> None:
    x, w, ends = tile.operands
    dtype = x.element.dtype
    depth, columns = size_text(x.shape[1]), size_text(tile.shape[1])
    if tile.forms:
        kind = dot_kind(dtype)
        step = f"g * (long)gh::packed_b_bytes<{kind}>({depth}, {columns})"
        found = f"(const char*){out.form(tile.forms[0])} + {step}"
        panels = f"[=](long g) -> const void* {{ return {found}; }}"
    else:
        kind, work = passing_dot(dtype), out.scratch(tile)
        steps = ", ".join(map(size_text, _steps(tile)))
        source = f"{buffer_of(w)} + g * {depth} * {columns}, {steps}, {depth}, {columns}, {work}"
        pack = f"gh::pack_b_parallel<{kind}>(*ctx.pool, {source});"
        panels = f"[&](long g) -> const void* {{ {pack} return {work}; }}"
    sizes = ", ".join(size_text(d) for d in (w.shape[0], x.shape[0], tile.shape[1], x.shape[1]))
    given = f"{sizes}, {buffer_of(x)}, {buffer_of(ends)}, {panels}, {tile.writes[0][1]}"
    out.add(f"gh::gemm_groups<{kind}>(*ctx.pool, {given});", tile.ops)


def _pack(form: Form) -> str:
    sizes = ", ".join(map(size_text, form.attrs))
    return f"gh::pack_groups<{dot_kind(form.dtype)}>(threads, source, {sizes}, out);"


def _bytes(form: Form) -> str:
    groups, _, _, *sizes = map(size_text, form.attrs)
    return f"{groups} * gh::packed_b_bytes<{dot_kind(form.dtype)}>({', '.join(sizes)})"


ROUTINES = {GROUPS: Routine(_groups, _needs, dot_recipe(0.4, ("groups.h",)))}
FORMS = {GROUPS: FormSpelling(_pack, _bytes, "groups.h")}
