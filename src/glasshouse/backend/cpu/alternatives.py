"""Alternatives to the variants of products, attention and norms, with what each would take.

None of them is measured: the routine that takes the operands as they are is the one, and the others
cost a pass over memory more. The figures are those of the target's cost model. Blockings of
products can be measured, and the chooser has them (`blocking.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from glasshouse.backend.cpu.attention import ATTENTION
from glasshouse.backend.cpu.matmul import BATCHED, GEMM, IN_PLACE
from glasshouse.backend.cpu.processor import has_tiles
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import bfloat16
from glasshouse.ir.graph import Graph, Node
from glasshouse.lower.choice import Candidate, Choice
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.program import Call
from glasshouse.lower.target import Target

_NORMS = ("layer_norm", "rms_norm", "group_norm", "softmax", "log_softmax")
KEY_BLOCK = 1024
"""Keys of a block: `attention.h`."""
_QUERIES, _QUERIES_ON_TILES = 56, 64  # of a block, where vectors have 16 lanes
FLOAT = 4  # bytes of what routines hold between their parts


def alternatives(call: Call, target: Target) -> tuple[Choice, ...]:
    """For each product, attention and norm of a kernel: the variant taken, and those not taken."""
    return (*_tiles(call, target), *_norms(call, target))


def _tiles(call: Call, target: Target) -> Iterator[Choice]:
    for tile in call.kernel.tiles:
        shapes = [*(d for o in tile.operands for d in o.shape), *tile.shape]
        if not all(isinstance(d, int) for d in shapes):
            continue  # sizes that a call brings have no figures yet
        if tile.routine in (GEMM, IN_PLACE):
            yield _product(tile, target)
        elif tile.routine == BATCHED:
            yield _batched(tile, target)
        elif tile.routine == ATTENTION:
            yield _attention(tile, target)
            yield _key_blocks(tile, target)


def _product(tile: Tile, target: Target) -> Choice:
    *_, columns = _numbers(tile.shape)
    rows = _size(tile.shape) // max(columns, 1)
    depth = _size(tile.operands[1].shape) // max(columns, 1)
    work = 2.0 * rows * columns * depth
    moved = FLOAT * (rows * depth + depth * columns + rows * columns)
    packing = 2 * FLOAT * depth * columns
    once = target.seconds(work, moved)
    each = once + packing / target.bandwidth
    if tile.routine == IN_PLACE:
        return _choice(
            "weights read where they lie", once, f"{rows} x {depth} x {columns}",
            ("panels packed once", once, "would hold the weights twice"),
            ("panels packed in each call", each, "would write the weights for a use or few"),
        )  # fmt: skip
    if tile.forms:
        return _choice(
            "panels packed once", once, f"{rows} x {depth} x {columns}; the weight is a constant",
            ("panels packed in each call", each, "would pack the weight again"),
            ("one product for each item", 0.0, "would read the weight for each item"),
        )  # fmt: skip
    return _choice(
        "panels packed in each call", each, f"{rows} x {depth} x {columns}",
        ("panels packed once", once, "needs a constant; this operand is computed"),
    )  # fmt: skip


def _batched(tile: Tile, target: Target) -> Choice:
    *_, rows, columns = _numbers(tile.shape)
    items = _size(tile.shape[:-2])
    depth = _numbers(tile.operands[0].shape)[-2 if tile.attr("transpose_x") else -1]
    work = 2.0 * items * rows * columns * depth
    moved = FLOAT * items * (rows * depth + depth * columns + rows * columns)
    once = target.seconds(work, moved)
    copied = once + 2 * FLOAT * items * depth * (rows + columns) / target.bandwidth
    sizes = f"{items} x ({rows} x {depth} x {columns})"
    return _choice(
        "operands read where they lie", once, sizes,
        ("operands copied row-major first", copied, "a pass over both more"),
        ("rows of one product", 0.0, "items have second operands of their own"),
    )  # fmt: skip


def _attention(tile: Tile, target: Target) -> Choice:
    queries, keys, values = (_numbers(o.shape) for o in tile.operands[:3])
    batch, heads, length, dim = queries
    scores = batch * heads * length * keys[2]
    work = 2.0 * scores * (dim + values[3])
    moved = FLOAT * (_size(queries) + _size(keys) + _size(values) + _size(tile.shape))
    once = target.seconds(work, moved)
    apart = once + 4 * FLOAT * scores / target.bandwidth + 2 * target.launch
    return _choice(
        "one pass over the keys", once,
        f"{batch * heads} heads, {length} x {keys[2]} x {dim}; scores stay in the cache",
        ("two products and a softmax", apart, f"{FLOAT * scores / 1e6:.3g} MB of scores, 4 times"),
    )  # fmt: skip


def _key_blocks(tile: Tile, target: Target) -> Choice:
    """Keys are taken in blocks; behind each but the first, sums so far are scaled again."""
    batch, heads, length, dim = _numbers(tile.operands[0].shape)
    keys, values = (_numbers(o.shape) for o in tile.operands[1:3])
    work = 2.0 * batch * heads * length * keys[2] * (dim + values[3])
    moved = FLOAT * sum(_size(_numbers(o.shape)) for o in tile.operands[:3])

    def cost(block: int) -> float:
        again = -(-keys[2] // block) - 1
        sums = 2.0 * FLOAT * batch * heads * length * values[3]
        return target.seconds(work + again * sums, moved) + again * sums / target.bandwidth

    block = min(keys[2], KEY_BLOCK)
    tiled = has_tiles() and tile.operands[0].element.dtype is bfloat16
    rows = _QUERIES_ON_TILES if tiled else _QUERIES
    others = [
        (f"keys in blocks of {b}", cost(b), f"{-(-keys[2] // b)} blocks, sums scaled between them")
        for b in (KEY_BLOCK // 4, KEY_BLOCK // 2)
        if b < block
    ]
    return _choice(
        f"keys in blocks of {block}", cost(block),
        f"scores of a block of queries take {FLOAT * block * rows / 1e3:.4g} kB of the L2",
        *others,
    )  # fmt: skip


def _norms(call: Call, target: Target) -> Iterator[Choice]:
    body = call.node.attrs.get("body")
    inside = list(body.nodes) if isinstance(body, Graph) else [call.node]
    alone = sum(bool(n.inputs) for n in inside) == 1
    for node in inside:
        if node.op.name in _NORMS and all(isinstance(d, int) for d in node.output.type.shape):
            yield _norm(node, alone, target)


def _norm(node: Node, alone: bool, target: Target) -> Choice:
    moved = 2 * _size(node.output.type.shape) * node.output.type.dtype.itemsize
    apart = target.seconds(0.0, moved)
    label = node.op.label
    if alone:
        return _choice(
            f"{label} in loops of its own", apart, "rows are read once, and again from the cache",
            (f"{label} in its neighbour's kernel", 0.0, "nothing that it could join"),
        )  # fmt: skip
    return _choice(
        f"{label} in the kernel's loops", 0.0, "its rows are in the cache: no pass of its own",
        (f"{label} as a kernel of its own", apart, f"a pass over {moved / 1e3:.4g} kB more"),
    )  # fmt: skip


def _choice(taken: str, seconds: float, why: str, *others: tuple[str, float, str]) -> Choice:
    def told(cost: float, why: str) -> str:
        return f"estimate {cost * 1e6:.3g} us; {why}" if cost else why

    return Choice(
        taken,
        (
            Candidate(taken, why=told(seconds, why)),
            *(Candidate(name, why=told(cost, reason)) for name, cost, reason in others),
        ),
    )


def _numbers(shape: Sequence[Dim]) -> tuple[int, ...]:
    """A shape that `_tiles` found to be known."""
    return tuple(d for d in shape if isinstance(d, int))


def _size(shape: Sequence[Dim]) -> int:
    return prod(_numbers(shape))
