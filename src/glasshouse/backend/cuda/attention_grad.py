"""Gradients of attention on GPUs: flash attention backward on tensor cores, for half floats."""

from __future__ import annotations

from glasshouse.backend.cuda.attention import (
    HALVES,
    MOST_DIM,
    lying_together,
    mask_operand,
    mask_text,
    shape_text,
    strided,
)
from glasshouse.backend.cuda.routine import CudaRoutine, lies_whole, most
from glasshouse.backend.cuda.text import CudaText
from glasshouse.errors import Unsupported
from glasshouse.ir.dtype import float32
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all

ATTENTION_GRAD = "attention_grad"
WARPS, OTHERS = 4, 64
"""Of a block, with 16 rows of its own each; and rows that it goes over at a time."""
NUMBERS = ("totals", "shifts")
"""What the first kernel leaves to the second, a number for each query."""


def attention_grad(builder: KernelBuilder, node: Node) -> None:
    """Add the gradients of q, k and v over [batch, heads, length, dim]."""
    g, q, k, v, y, *rest = node.inputs
    dtype = q.type.dtype
    if dtype not in HALVES or q.type.rank != 4:
        raise Unsupported(f"no gradient of attention of {dtype} over {q.type.rank} dimensions")
    batch, heads, _, dim = q.type.shape
    if not (isinstance(dim, int) and 0 < dim <= MOST_DIM):
        raise Unsupported(f"no gradient of attention over heads of {dim}")
    if most(batch) > 65535 or most(heads) > 65535:
        raise Unsupported("no gradient of attention over that many heads")
    operands = [lying_together(builder, x) for x in (g, q, k, v, y)]
    operands += [mask_operand(builder, mask) for mask in rest[:1]]
    add_tile(builder, node, ATTENTION_GRAD, operands, writes=write_all(builder, node))


def _needs(tile: Tile) -> Needs:
    batch, heads, length, _ = tile.operands[1].shape
    return (), tuple(Scratch(name, batch * heads * length * 4, float32) for name in NUMBERS)


def _attention_grad(out: CudaText, tile: Tile) -> None:
    g, q, k, v, y, *rest = tile.operands
    dim = q.shape[3]
    assert isinstance(dim, int), "lowering wants it known"
    d = -(-dim // 16) * 16
    whole = all(lies_whole(view(x).index, x.loops[3]) for x in (g, q, k, v, y))
    kind = f"gh::AttentionGradTile<{d}, {d}, {WARPS}>, {'true' if whole else 'false'}"
    mask = mask_text(rest[0], None, out.index) if rest else "gh::NoMask{}"
    numbers = [out.scratch(tile, name) for name in NUMBERS]
    batch, heads = q.shape[:2]
    beside = 3 if d <= 64 else 2
    rows = 16 * WARPS
    grid = ((q.shape[2] + (rows - 1)) // rows, heads, batch)
    operands = (("g", g), ("q", q), ("k", k), ("v", v), ("y", y))
    for what, named in (("queries", operands), ("keys", operands[:4])):
        with out.function(grid, WARPS * 32, _shared(d), beside=beside):
            out.add(f"const auto shape_ = {shape_text(tile, q, k, v)};", tile.ops)
            for name, operand in named:
                out.add(f"const auto {name}_ = {strided(operand)};", tile.ops)
            out.add(f"const auto mask_ = {mask};", tile.ops)
            given = ", ".join(["shape_", *(f"{n}_" for n, _ in named), "mask_"])
            place = ", ".join([tile.writes[0][1], *numbers])
            out.add(f"gh::attention_grad_{what}<{kind}>({given}, {place});", tile.ops)


def _shared(d: int) -> int:
    """`gh::AttentionGradTile::SHARED`."""
    row = 16 << (d // 8 - 1).bit_length()
    return (16 * WARPS + 2 * OTHERS) * row * 2 + 2 * 2 * OTHERS * 4


ROUTINES = {ATTENTION_GRAD: CudaRoutine(_attention_grad, _needs)}
