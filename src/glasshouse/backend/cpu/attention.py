"""Attention on CPUs: one fused template, operands read in place."""

from __future__ import annotations

from glasshouse.backend.cpu.results import hand_over
from glasshouse.backend.cpu.routine import Routine, dot_recipe, passing_dot
from glasshouse.backend.cxx.elements import VECTOR_TYPE
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, index_text, number_text, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import DType, bfloat16, bool_, float16, float32, float64
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Operand, Tile
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import axes, view_of

ATTENTION = "attention"
_NARROW = (float32, bfloat16, float16)  # computed in vectors of float32
_TYPES = (*_NARROW, float64)


def attention(builder: KernelBuilder, node: Node) -> None:
    """Add scaled dot-product attention over [batch, heads, length, dim]."""
    q, k, v, *rest = node.inputs
    dtype = q.type.dtype
    if dtype not in _TYPES or k.type.dtype is not dtype or v.type.dtype is not dtype:
        raise Unsupported(f"no attention of {dtype}")
    if not q.type.rank == k.type.rank == v.type.rank == 4:
        raise Unsupported(f"no attention over {q.type.rank} dimensions")
    batch, heads, length, dim = q.type.shape
    if k.type.shape[0] != batch or v.type.shape[0] != batch:
        raise Unsupported("no attention with a broadcast batch")
    if node.attrs["scale"] is None and not isinstance(dim, int):
        raise Unsupported("no attention over a symbolic dim without a scale")
    operands = [_lying_together(builder, x) for x in (q, k, v)]
    operands += [_mask(builder, mask, dtype) for mask in rest[:1]]
    variables = {"b": batch, "h": heads, "i": length, "d": v.type.shape[3]}
    after = take_results(builder, node.output, variables)
    add_tile(builder, node, ATTENTION, operands, after)


def _lying_together(builder: KernelBuilder, value: Value) -> Operand:
    """An operand whose last axis is contiguous."""
    operand = view_of(builder, value, axes(value.type.shape))
    if view(operand).index.coefficient(operand.loops[3]) != 1 and value.type.shape[3] != 1:
        raise Unsupported("the last axis of an operand of attention is not contiguous")
    return operand


def _mask(builder: KernelBuilder, mask: Value, dtype: DType) -> Operand:
    """The mask over the variables of the routine; broadcast axes stay at 0."""
    names = ("b", "h", "i", "j")[4 - mask.type.rank :]
    operand = view_of(
        builder, mask, [Loop(n, d) for n, d in zip(names, mask.type.shape, strict=True)]
    )
    if _along(operand) not in (0, 1) or product(mask.type.shape) == 0:
        raise Unsupported("keys of the mask are not contiguous")
    if mask.type.dtype not in (bool_, *((float64,) if dtype is float64 else _NARROW)):
        raise Unsupported(f"no mask of {mask.type.dtype} over {dtype}")
    return operand


def _along(mask: Operand) -> object:
    """The stride of the elements for neighbouring keys."""
    keys = mask.loops[-1]
    return view(mask).index.coefficient(keys) if keys.extent != 1 else 0


# ------------------------------------------------------------------------------------ rendering
def _attention(out: KernelText, tile: Tile) -> None:
    q, k, v, *rest = tile.operands
    batch, heads, length, dim = q.shape
    scale, fill = tile.attr("scale"), tile.attr("fill")
    if scale is None:
        assert isinstance(dim, int), "lowering wants it known"
        scale = 1.0 / float(dim) ** 0.5
    operands = ", ".join(_strided(x) for x in (q, k, v))
    dtype = q.element.dtype
    mask = _mask_text(rest[0], fill, dtype) if rest else "gh::NoMask{}"
    numbers = (batch, heads, k.shape[1], length, k.shape[2], dim, v.shape[3])
    sizes = ", ".join(size_text(d) for d in numbers)
    causal = "true" if tile.attr("causal") else "false"
    plain = "false" if fill is None else "true"
    shape = f"gh::AttentionShape{{{sizes}, {number_text(scale, dtype)}, {causal}, false, {plain}}}"
    kind = passing_dot(dtype)
    hand_over(out, tile, f"gh::attention<{kind}>(*ctx.pool, {shape}, {operands}, {mask}")


def _strided(operand: Operand) -> str:
    """An operand as `gh::Strided`."""
    load = view(operand)
    steps = ", ".join(size_text(load.index.coefficient(x)) for x in operand.loops[:3])
    begin = index_text(load.index.without(*operand.loops))
    return f"gh::Strided<{C_TYPE[load.dtype]}>{{{load.buffer} + {begin}, {steps}}}"


def _mask_text(mask: Operand, fill: float | None, dtype: DType) -> str:
    """A lambda that masks a vector of scores."""
    load, vector = view(mask), VECTOR_TYPE[dtype]
    place, along = f"{load.buffer} + {index_text(load.index)}", _along(mask)
    if load.dtype is bool_:
        keep = f"gh::load_mask({place}, t)" if along else f"gh::splat(*({place}))"
        low = number_text(float("-inf") if fill is None else fill, dtype)
        changed = f"gh::select({keep}, x, {vector}({low}))"
    else:
        added = f"gh::load({place}, t)" if along else f"{vector}(gh::to_scalar(*({place})))"
        changed = f"x + {added}"
    return f"[=](long b, long h, long i, long j, {vector} x, auto t) {{ return {changed}; }}"


ROUTINES = {ATTENTION: Routine(_attention, recipe=dot_recipe(0.25))}
