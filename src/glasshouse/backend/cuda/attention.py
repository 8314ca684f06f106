"""Attention on GPUs: flash attention on tensor cores for half floats, by warpgroups on Hopper;
otherwise, and for single queries, a block for each query."""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cuda.elements import together
from glasshouse.backend.cuda.routine import (
    CudaRoutine,
    hand_over,
    least,
    lies_whole,
    most,
    neighbours,
)
from glasshouse.backend.cuda.tensor_map import TensorMap
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import MOST_CANDIDATES, MOST_SHARED, PROCESSORS
from glasshouse.backend.cxx.words import C_TYPE, index_text, number_text, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, dim_min
from glasshouse.ir.dtype import bfloat16, bool_, float16, float32
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.choice import Problem
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Operand, Tile
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import axes, view_of
from glasshouse.ops.cost import operations

ATTENTION = "attention"
BY_FLAGS = "attention_flags"
"""The problem of attention with a flag for each query and key: measured as a prompt at the
beginning of its cache, so that queries see as many keys as there are before them."""
ROWS, SPLIT = "rows", "rows_split"
HALVES = (float16, bfloat16)
MOST_DIM = 128
"""Of a head: queries and sums stay in registers."""
LARGE_DIM = 64
"""Of a head, past which the sums of 32 queries of a warp do not fit its registers."""
MOST_SHARING = 264
"""Blocks, two for each multiprocessor, up to which more of them share the keys of a query."""
FEW_QUERIES = 4
"""Up to which a block for each query is faster than tiles of 16 of them."""
LONG = 256
"""Queries from which warps by themselves are no candidates beside warpgroups: 16 x 12 heads of 512
x 512 x 64 take 59 us and 33, and each variant half a second to build."""


GROUPED_DIMS = (64, 128)
"""Of a head that warpgroups take: rows of 128 bytes, as their tensor cores read them."""


@dataclass(frozen=True)
class Grouped:
    """How warpgroups share attention: so many of a block with 64 queries each, keys at a time, and
    how many of these are under way from memory; blocks that a multiprocessor holds."""

    groups: int
    keys: int
    stages: int
    beside: int = 1

    @property
    def name(self) -> str:
        many = f"_by{self.beside}" if self.beside > 1 else ""
        return f"wgmma{self.groups * 64}x{self.keys}{many}"

    @property
    def threads(self) -> int:
        return self.groups * 128 + 128

    def shared(self, dim: int) -> int:
        rows = self.groups * 128 + self.stages * 2 * self.keys
        barriers = 6 + 2 * self.stages + 8 * self.groups  # and words of what warps see
        return rows * dim * 2 + self.stages * self.keys * 4 + barriers * 8

    def text(self, dim: int) -> str:
        sizes = (dim, self.groups, self.keys, self.stages, self.beside)
        return f"gh::AttentionGroups<{', '.join(map(str, sizes))}>"


GROUPED = {
    v.name: v
    for v in (
        Grouped(4, 64, 4),
        Grouped(3, 128, 2),
        Grouped(2, 128, 2),
        Grouped(1, 128, 2),
        Grouped(1, 128, 2, 2),
    )
}


def attention(
    builder: KernelBuilder, node: Node, hopper: bool = False, clusters: bool = False
) -> None:
    """Add scaled dot-product attention over [batch, heads, length, dim]."""
    q, k, v, *rest = node.inputs
    dtype = q.type.dtype
    if dtype not in (*HALVES, float32) or any(x.type.dtype is not dtype for x in (k, v)):
        raise Unsupported(f"no attention of {dtype}")
    if not q.type.rank == k.type.rank == v.type.rank == 4:
        raise Unsupported(f"no attention over {q.type.rank} dimensions")
    batch, heads, length, dim = q.type.shape
    if k.type.shape[0] != batch or v.type.shape[0] != batch or v.type.shape[1] != k.type.shape[1]:
        raise Unsupported("no attention with a broadcast batch")
    sizes = (dim, v.type.shape[3])
    if not all(isinstance(d, int) and 0 < d <= 2 * MOST_DIM for d in sizes):
        raise Unsupported(f"no attention over heads of {dim} and {v.type.shape[3]}")
    if most(batch) > 65535 or most(heads) > 65535:
        raise Unsupported("no attention over that many heads")
    operands = [lying_together(builder, x) for x in (q, k, v)]
    operands += [mask_operand(builder, mask) for mask in rest[:1]]
    variables = {"b": batch, "h": heads, "i": length, "d": v.type.shape[3]}
    after = take_results(builder, node.output, variables)
    names = _variants(node, clusters)
    if hopper and all(_is_fetched(x) for x in operands[:3]) and not _splits(names[0]):
        grouped = _grouped(node)
        by_warps = () if grouped and least(length) >= LONG else names
        names = (*grouped, *by_warps)[:MOST_CANDIDATES]
    numbers = tuple(d for d in (*q.type.shape, *k.type.shape[1:3]) if isinstance(d, int))
    flags = any(m.type.dtype is bool_ and m.type.shape[-2:-1] == (length,) for m in rest[:1])
    problem = Problem(BY_FLAGS if flags else ATTENTION, dtype.name, numbers, operations(node))
    add_tile(
        builder, node, ATTENTION, operands, after,
        variants=names, problem=problem if len(numbers) == 6 else None,
    )  # fmt: skip


def _variants(node: Node, clusters: bool) -> tuple[str, ...]:
    q, k, v = node.inputs[:3]
    batch, heads, length, dim = q.type.shape
    large = any(isinstance(d, int) and d > MOST_DIM for d in (dim, v.type.shape[3]))
    per = max(int(least(-(-d // 8))) for d in (dim, v.type.shape[3]))
    alike = _alike(heads, k.type.shape[1], per)
    if q.type.dtype not in HALVES or large:
        return _rows(batch, heads, length, k.type.shape[2], alike, clusters)
    small = all(isinstance(d, int) and d <= LARGE_DIM for d in (dim, v.type.shape[3]))
    blocks = least(batch) * least(heads) * max(least(length), 1) / 64
    flash: tuple[str, ...] = ("flash64", "flash32") if blocks >= 132 else ("flash32", "flash64")
    if small and most(length) > 64:
        flash = ("flash128", *flash) if blocks >= 4 * 132 else (*flash, "flash128")
    if most(length) <= FEW_QUERIES:
        return (*_rows(batch, heads, length, k.type.shape[2], alike, clusters), *flash)
    return (*flash, ROWS)


def _grouped(node: Node) -> tuple[str, ...]:
    """Variants by warpgroups, the one that is likely best first."""
    batch, heads, length, dim = node.inputs[0].type.shape
    if dim != node.inputs[2].type.shape[3] or dim not in GROUPED_DIMS or least(length) <= 64:
        return ()
    masks = [v.type for v in node.inputs[3:4] if v.type.shape[-2:-1] not in ((), (1,))]
    # Sums, and what the mask has for each query and key, fit registers.
    few = dim != 64 or any(t.dtype is not bool_ for t in masks)
    fit = [v for v in GROUPED.values() if not few or v.groups <= 2]
    # A warpgroup alone on a multiprocessor is for heads that leave others idle otherwise.
    many = most(batch) * most(heads) * most(length) > 64 * PROCESSORS
    fit = [v for v in fit if (v.groups > 1 or v.beside > 1 if many else v.beside == 1)]
    fit = [v for v in fit if v.shared(dim) <= MOST_SHARED[v.beside]]
    return tuple(v.name for v in sorted(fit, key=lambda v: -least(length) % (64 * v.groups)))


def _is_fetched(operand: Operand) -> bool:
    """Whether the copy engine can bring rows of an operand: they are apart, and whole."""
    index, loops = view(operand).index, operand.loops
    apart = all(x.extent == 1 or index.coefficient(x) != 0 for x in loops[:3])
    return apart and lies_whole(index, loops[3])


def _alike(heads: Dim, key_heads: Dim, per: int) -> int:
    """Heads with the same keys whose queries a block takes: as many as registers hold sums of."""
    if not isinstance(heads, int) or not isinstance(key_heads, int) or per > 8:
        return 1
    return next(n for n in (4, 2, 1) if heads // key_heads % n == 0)


def _rows(
    batch: Dim, heads: Dim, length: Dim, keys: Dim, alike: int, clusters: bool
) -> tuple[str, ...]:
    """Few queries over many keys are few blocks: several share the keys then, as a cluster."""
    blocks = max(least(batch) * least(heads) * least(length) / alike, 1)
    splits = 8
    while splits > 1 and (splits * blocks > MOST_SHARING or least(keys) < splits * 128):
        splits //= 2
    return (f"{SPLIT}{splits}", ROWS) if clusters and splits > 1 else (ROWS,)


def _splits(variant: str) -> int:
    """Blocks that share the keys of a query; 0 for a variant of tiles."""
    if variant == ROWS:
        return 1
    return int(variant.removeprefix(SPLIT)) if variant.startswith(SPLIT) else 0


def lying_together(builder: KernelBuilder, value: Value) -> Operand:
    """An operand whose last axis lies together."""
    operand = view_of(builder, value, axes(value.type.shape))
    if view(operand).index.coefficient(operand.loops[3]) != 1 and value.type.shape[3] != 1:
        raise Unsupported("the last axis of an operand of attention does not lie together")
    return operand


def mask_operand(builder: KernelBuilder, mask: Value) -> Operand:
    """The mask over the variables of the routine; broadcast axes stay at 0."""
    if mask.type.dtype not in (bool_, float32, bfloat16, float16) or mask.type.rank > 4:
        raise Unsupported(f"no mask of {mask.type.dtype}")
    names = ("b", "h", "i", "j")[4 - mask.type.rank :]
    loops = [Loop(n, d) for n, d in zip(names, mask.type.shape, strict=True)]
    return view_of(builder, mask, loops)


# ------------------------------------------------------------------------------------ rendering
def _attention(out: CudaText, tile: Tile) -> None:
    q, k, v, *rest = tile.operands
    batch, heads, length, dim = q.shape
    value_dim = v.shape[3]
    assert isinstance(dim, int)
    assert isinstance(value_dim, int), "lowering wants them known"
    fill = tile.attr("fill")
    shape = shape_text(tile, q, k, v, plain=fill is not None)
    mask = mask_text(rest[0], fill, out.index) if rest else "gh::NoMask{}"
    count, beside, described = 1, 0, "shape_"
    cluster, splits = (1, 1), _splits(tile.variant)
    grid: tuple[Dim, Dim, Dim]
    maps: tuple[TensorMap, ...] = ()
    if tile.variant in GROUPED:
        how = GROUPED[tile.variant]
        count = neighbours(tile)
        threads, shared, beside = how.threads, how.shared(dim), how.beside
        runs = (length + (64 * how.groups - 1)) // (64 * how.groups)
        grid = (dim_min(runs * heads * batch, PROCESSORS * how.beside), 1, 1)
        described = f"shape_, (int){size_text(batch)}"
        maps = _map(q, 64), _map(k, how.keys), _map(v, how.keys)
        call = f"gh::attention_tma<{how.text(dim)}, {count}, {C_TYPE[q.element.dtype]}>(ctx, "
    elif splits:
        per = -(-max(dim, value_dim) // 8)
        # Few queries: their keys are looked at by as many lanes as wait for memory together.
        alike = _alike(heads, k.shape[1], per)
        warps, together = 8 if alike > 1 else 4, 4 if per <= 8 else 1
        threads, shared = warps * 32, (splits + warps) * alike * (8 * per + 2) * 4 + 8
        grid = (length * splits, heads // alike, batch)
        cluster = (splits, 1)
        eight = dim == value_dim == 64 and q.element.dtype in HALVES
        whole = eight and all(lies_whole(view(x).index, x.loops[3]) for x in (q, k, v))
        call = f"gh::attention_rows<{per}, {warps}, {together}, {splits}, {alike}, {_flag(whole)}>("
    else:
        queries = int(tile.variant.removeprefix("flash"))
        tiles = 2 if queries == 128 else 1  # 16 queries each, of one warp
        warps = queries // 16 // tiles
        d, dv = (-(-x // 16) * 16 for x in (dim, value_dim))
        whole = all(lies_whole(view(x).index, x.loops[3]) for x in (q, k, v))
        count = neighbours(tile)
        threads, shared = warps * 32, _shared(d, dv, queries)
        grid = ((length + (queries - 1)) // queries, heads, batch)
        block = f"gh::AttentionTile<{d}, {dv}, {warps}, {tiles}>"
        call = f"gh::attention_mma<{block}, {_flag(whole)}, {count}>("
    with out.function(
        grid, threads, shared, beside=beside, cluster=cluster, maps=maps, waits=not maps
    ):
        out.add(f"const auto shape_ = {shape};", tile.ops)
        for number, (name, operand) in enumerate((("q_", q), ("k_", k), ("v_", v))):
            given = f"map{number}" if maps else strided(operand)
            out.add(f"const auto& {name} = {given};", tile.ops)
        out.add(f"const auto mask_ = {mask};", tile.ops)
        hand_over(out, tile, f"{call}{described}, q_, k_, v_, mask_", count, ("b", "h", "i", "d"))


def shape_text(tile: Tile, q: Operand, k: Operand, v: Operand, plain: bool = False) -> str:
    """`gh::AttentionShape`."""
    _, heads, length, dim = q.shape
    scale = tile.attr("scale")
    if scale is None:
        assert isinstance(dim, int), "lowering wants it known"
        scale = 1.0 / float(dim) ** 0.5
    numbers: tuple[Dim, ...] = (heads, k.shape[1], length, k.shape[2], dim, v.shape[3])
    sizes = ", ".join(f"(int){size_text(d)}" for d in numbers)
    flags = f"{_flag(tile.attr('causal'))}, {_flag(plain)}"
    return f"gh::AttentionShape{{{sizes}, {number_text(scale, float32)}, {flags}}}"


def _map(operand: Operand, rows: int) -> TensorMap:
    """An operand for the copy engine; an axis of size 1 may have any step."""
    load, (batch, head, row, dim) = view(operand), operand.loops
    steps = [load.index.coefficient(x) for x in (row, head, batch)]
    apart = tuple((dim.extent if s == 0 else s) * 2 for s in steps)
    extents = (dim.extent, row.extent, head.extent, batch.extent)
    begin = load.index.without(*operand.loops).constant
    return TensorMap(load.buffer, extents, apart, (rows,), begin=begin)


def _shared(d: int, dv: int, queries: int) -> int:
    """`gh::AttentionTile::SHARED`."""
    pitch, pitch_v = (1 << (x // 8 - 1).bit_length() for x in (d, dv))
    loaded = (queries * pitch * 8 + 2 * 64 * (pitch + pitch_v) * 8) * 2
    return max(loaded, queries * (dv + 4) * 4)


def strided(operand: Operand) -> str:
    """An operand as `gh::Strided`."""
    load = view(operand)
    steps = ", ".join(size_text(load.index.coefficient(x)) for x in operand.loops[:3])
    begin = index_text(load.index.without(*operand.loops))
    return f"gh::Strided<{C_TYPE[load.dtype]}>{{{load.buffer} + {begin}, {steps}}}"


def mask_text(mask: Operand, fill: float | None, index: str) -> str:
    """A lambda that masks a score; `index` is the type of positions."""
    load = view(mask)
    element = f"gh::to_scalar({load.buffer}[{index_text(load.index)}])"
    low = number_text(float("-inf") if fill is None else fill, float32)
    if load.dtype is not bool_ and "i" not in {
        a.name for a in load.index.atoms() if isinstance(a, Loop)
    }:
        return f"gh::key_mask([=]({index} b, {index} h, {index} j) {{ return {element}; }})"
    at, given, key = (
        f"{load.buffer} + {index_text(load.index)}",
        ", ".join(f"{index} {name}" for name in "bhij"),
        mask.loops[-1],
    )
    one = f"[=]({given}) {{ return {element}; }}"
    if load.dtype is bool_:
        if isinstance(key.extent, int) and key.extent % 16 == 0 and together(load.index, key, 16):
            run = f"[=]({given}) {{ return *(const gh::Vec<uint32_t, 4>*)({at}); }}"
            return f"gh::flag_mask({one}, {run}, {low})"
        body = f"return {element} ? x : gh::in_units({low}, unit);"
        return f"[=]({given}, float x, float unit) {{ {body} }}"
    if not (isinstance(key.extent, int) and key.extent % 2 == 0 and together(load.index, key, 2)):
        body = f"return x + gh::in_units({element}, unit);"
        return f"[=]({given}, float x, float unit) {{ {body} }}"
    two = f"[=]({given}) {{ return gh::load_vec<2>({at}); }}"
    body = "return x + gh::in_units(gh::to_scalar(loaded), unit);"
    use = f"[=]({C_TYPE[load.dtype]} loaded, float x, float unit) {{ {body} }}"
    one = f"[=]({given}) {{ return *({at}); }}"
    return f"gh::pair_mask({one}, {two}, {use})"


def _flag(value: object) -> str:
    return "true" if value else "false"


ROUTINES = {ATTENTION: CudaRoutine(_attention)}
