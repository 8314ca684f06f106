"""Sizes of the tiles of a product on tensor cores, and which suits a problem: the cost model.

A candidate is a tile and a number of blocks that share its depth. The model counts what a
multiprocessor computes and what it loads, and how many rounds of blocks the chip needs. It
proposes; where there is a GPU, what it proposes is measured (`measure.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

PROCESSORS = 132
"""Multiprocessors of the chip that tiles are chosen for (H100, H200)."""
MOST_CANDIDATES, WITHIN = 6, 1.4
"""How many variants are proposed, and how far their estimates may be from the best: measured, 17
products on an H200 took at most 1.3 times what was estimated."""
LARGE, OF_LARGE = 2e10, 4
"""Operations of a product from which fewer are proposed: its tiles are many, so estimates are near,
and each variant takes up to half a second to build."""


SIMT, MMA, DMMA, WGMMA, TMA, TURNS = "simt", "mma", "dmma", "wgmma", "tma", "turns"
"""No tensor cores; instructions of warps; those of float64; of warpgroups, for operands that lie
along the depth; the same where the copy engine can fetch both, by blocks that stay for the next
tile; the same by two warpgroups that take turns, so that what follows one's product runs beside the
other's."""
BY_WARPS = (MMA, DMMA)
"""Kinds whose tiles are shared by warps."""
BY_MEMORY = (SIMT, *BY_WARPS)
"""Kinds of which blocks that share a depth leave their sums in memory; they are no Hopper's."""
FETCHED = (TMA, TURNS)
"""Kinds whose operands the copy engine brings."""


MOST_SHARED = {1: 232448, 2: 115712}
"""Bytes of shared memory of a block, by how many of them a multiprocessor is to hold."""


@dataclass(frozen=True)
class GemmTile:
    """A block's part of the result, its step in depth, each warp's part, steps under way."""

    m: int
    n: int
    k: int
    warp_m: int
    warp_n: int
    stages: int
    speed: float  # share of the tensor cores' rate that its inner loop reaches
    kind: str = MMA
    beside: int = 1  # blocks that a multiprocessor holds: one computes while another stores

    @property
    def hopper(self) -> bool:
        return self.kind not in BY_MEMORY

    @property
    def threads(self) -> int:
        if self.kind == SIMT:
            return 256
        if self.kind in BY_WARPS:
            return (self.m // self.warp_m) * (self.n // self.warp_n) * 32
        if self.kind == TURNS:
            return 3 * 128
        if self.kind == TMA:
            return self.m // 64 * 128 + (128 if (self.m, self.n) == (128, 256) else 32)
        return self.m // 64 * 128

    @property
    def shared(self) -> int:
        """Bytes that are asked for, without room for sums that blocks join."""
        if self.kind == SIMT:  # which declares what it needs
            return 0
        loaded = self.stages * (self.m + self.n) * self.k * 2
        if self.kind in FETCHED:
            return loaded + 16 * (self.stages + 1)
        staged = 0 if self.kind == DMMA else self.m * (self.n + 4) * 4
        return max(loaded, staged)

    @property
    def rooms(self) -> int:
        """Bytes through which the warps of a fetched tile hand over results one by one."""
        return self.m // 64 * 4 * 2048 if self.kind == TMA else 8 * 2048

    @property
    def name(self) -> str:
        many = f"_by{self.beside}" if self.beside > 1 else ""
        return f"{self.kind}{self.m}x{self.n}x{self.k}{many}"

    @property
    def function(self) -> str:
        return f"gh::gemm_{self.kind}"

    @property
    def text(self) -> str:
        if self.kind == TMA:
            sizes = (self.m, self.n, self.stages, self.beside)
            return f"gh::Fetched<{', '.join(map(str, sizes))}>"
        if self.kind == TURNS:
            return f"gh::Turns<{self.m}, {self.n}, {self.stages}>"
        if self.kind == WGMMA:
            return f"gh::Groups<{self.m}, {self.n}, {self.stages}>"
        warps = (self.m, self.n, self.k, self.warp_m, self.warp_n, self.stages)
        return f"gh::Tile<{', '.join(map(str, warps))}>"


TILES = {
    tile.name: tile
    for tile in (
        GemmTile(128, 256, 64, 64, 256, 4, 1.0, TMA),
        GemmTile(128, 192, 64, 64, 192, 5, 0.95, TMA),
        GemmTile(128, 192, 64, 128, 192, 5, 1.0, TURNS),
        GemmTile(128, 128, 64, 128, 128, 6, 0.95, TURNS),
        GemmTile(128, 128, 64, 64, 128, 3, 0.85, TMA, 2),
        GemmTile(128, 128, 64, 64, 128, 6, 0.87, TMA),
        GemmTile(128, 64, 64, 64, 64, 4, 0.75, TMA, 2),
        GemmTile(64, 128, 64, 64, 128, 4, 0.75, TMA, 2),
        GemmTile(128, 64, 64, 64, 64, 8, 0.87, TMA),
        GemmTile(64, 128, 64, 64, 128, 8, 0.95, TMA),
        GemmTile(64, 192, 64, 64, 192, 6, 0.9, TMA),
        GemmTile(64, 64, 64, 64, 64, 6, 0.6, TMA, 2),
        GemmTile(64, 64, 64, 64, 64, 12, 0.6, TMA),
        GemmTile(64, 32, 64, 64, 32, 8, 0.55, TMA, 2),
        GemmTile(128, 256, 64, 64, 256, 4, 1.0, WGMMA),
        GemmTile(128, 128, 64, 64, 128, 5, 0.9, WGMMA),
        GemmTile(128, 128, 64, 64, 128, 3, 0.9, WGMMA, 2),
        GemmTile(128, 64, 64, 64, 64, 6, 0.75, WGMMA),
        GemmTile(64, 128, 64, 64, 128, 6, 0.75, WGMMA),
        GemmTile(64, 64, 64, 64, 64, 6, 0.6, WGMMA),
        GemmTile(64, 32, 64, 64, 32, 6, 0.4, WGMMA),
        GemmTile(128, 256, 32, 64, 64, 4, 1.0),
        GemmTile(128, 128, 32, 64, 32, 4, 0.9),
        GemmTile(128, 64, 32, 32, 32, 5, 0.75),
        GemmTile(64, 128, 32, 32, 32, 5, 0.75),
        GemmTile(64, 64, 64, 32, 32, 4, 0.6),
        GemmTile(64, 32, 64, 32, 16, 5, 0.45),
        GemmTile(32, 64, 64, 16, 32, 5, 0.45),
        GemmTile(32, 32, 128, 16, 16, 4, 0.3),
        GemmTile(16, 64, 128, 16, 16, 4, 0.25),
        # Depths are those of half floats, as many bytes: 16 elements of float64, or 32 of float32.
        GemmTile(64, 64, 32, 64, 64, 2, 0.5, SIMT),
        GemmTile(32, 64, 64, 32, 64, 2, 0.4, SIMT),
        GemmTile(32, 32, 64, 32, 32, 2, 0.3, SIMT),
        GemmTile(16, 64, 64, 16, 64, 2, 0.25, SIMT),
        GemmTile(16, 32, 64, 16, 32, 2, 0.2, SIMT),
        GemmTile(16, 16, 128, 16, 16, 2, 0.12, SIMT),
        GemmTile(128, 128, 64, 64, 32, 4, 1.0, DMMA),
        GemmTile(128, 64, 64, 32, 32, 4, 0.95, DMMA),
        GemmTile(64, 64, 64, 32, 16, 5, 0.85, DMMA),
        GemmTile(64, 32, 64, 16, 16, 6, 0.7, DMMA),
        GemmTile(32, 32, 64, 16, 8, 6, 0.5, DMMA),
        GemmTile(16, 64, 64, 16, 8, 6, 0.4, DMMA),
        GemmTile(16, 32, 64, 16, 8, 8, 0.3, DMMA),
    )
}
_SPLITS = (1, 2, 3, 4, 6, 8)
_MORE_SPLITS = (*_SPLITS, 12, 16, 24, 32)  # where sums go through memory and products are slow
_CLUSTERS = {2: 66, 3: 40, 4: 31, 6: 18, 8: 14}
"""How many clusters of so many blocks, one a multiprocessor, run at once. Measured for 4; where two
blocks fit one multiprocessor, clusters crowd on half of them, so tiles are joined that fill one."""
_RATE = 200e12 / PROCESSORS  # operations a second of one multiprocessor through mma.sync
_SIMT_RATE = 120e12 / PROCESSORS  # without tensor cores, of float32 in depths of half floats
_HOPPER_RATE = 790e12 / PROCESSORS  # and by warpgroups, as fast as the chip's power lets them
_LOAD = 5.5e12 / PROCESSORS  # bytes a second from the second-level cache
_FETCH = 19e12 / PROCESSORS  # and by the copy engine
_ALIKE = 2
_FIXED = 2.6e-6  # a launch, the first loads, the last stores
_STEP = 2.3e-7  # the least time of one step in depth
_SIMT_STEP = 7e-7  # and where the next step comes through registers: its way from memory
_EARLY_STEP = 1.2e-7  # and where the weights are there
_ALONE = 5e-7  # more for a warpgroup alone that joins many sums


@dataclass(frozen=True)
class GemmVariant:
    """A tile, and how many blocks share its depth; `joined`: as a cluster, in shared memory."""

    tile: GemmTile
    splits: int = 1
    joined: bool = False

    @property
    def name(self) -> str:
        how = "join" if self.joined else "split"
        return self.tile.name + (f"_{how}{self.splits}" if self.splits > 1 else "")

    @property
    def shared(self) -> int:
        """Bytes of a block: `gh::Fetched` has sums that are joined behind its stages, or over them
        where both do not fit."""
        tile, splits = self.tile, self.splits
        if not self.joined or tile.kind != TMA:
            return tile.shared
        eights = tile.n // 16 >= splits
        fours = math.ceil(tile.n / 16 / splits) * 2 if eights else math.ceil(tile.n / 8 / splits)
        behind = tile.shared + splits * fours * 16 * tile.m * 2
        return behind if behind <= MOST_SHARED[tile.beside] else tile.shared


_NAME = re.compile(r"(?:int8_|float8_)?([a-z]+\d+x\d+x\d+(?:_by\d)?)(?:_(split|join)(\d+))?")


def variant_named(name: str) -> GemmVariant:
    found = _NAME.fullmatch(name)
    assert found is not None, name
    return GemmVariant(TILES[found[1]], int(found[3] or 1), found[2] == "join")


def blocks(variant: GemmVariant, m: int, n: int, batch: int) -> int:
    tile = variant.tile
    return math.ceil(m / tile.m) * math.ceil(n / tile.n) * batch * variant.splits


def estimate(variant: GemmVariant, m: int, n: int, k: int, batch: int) -> float:
    """Seconds."""
    tile = variant.tile
    depth = math.ceil(math.ceil(k / tile.k) / variant.splits) * tile.k
    rate = _HOPPER_RATE if tile.hopper else _SIMT_RATE if tile.kind == SIMT else _RATE
    load = _FETCH if tile.kind in FETCHED else _LOAD
    count = blocks(variant, m, n, batch)
    rounds = math.ceil(count / PROCESSORS)
    if variant.joined:
        rounds = math.ceil(count / variant.splits / _CLUSTERS[variant.splits])
    shared = tile.shared or 1 << 15  # which is less than what a block without any declares
    together = min(rounds, max(1, (227 << 10) // shared), 2048 // tile.threads)
    # Weights of blocks that run at once are asked for before the kernel may begin, or nearer then.
    early = tile.kind == TMA and rounds <= together
    computed = 2 * tile.m * tile.n * depth / (rate * tile.speed)
    left = max(depth - 2 * tile.stages * tile.k, 0) if early else depth
    loaded = (tile.m * depth / (1.5 if early else 1.0) + tile.n * left) * 2 / load
    step = _EARLY_STEP if early else _SIMT_STEP if tile.kind == SIMT else _STEP
    turn = max(computed, loaded, depth / tile.k * step / together)
    if variant.splits == 1:
        return _FIXED + rounds * turn
    if variant.joined:  # each block takes its share of all others' sums
        joining = (
            2e-7 * variant.splits
            + 128 * tile.n / _LOAD
            + (_ALONE if tile.m == 64 and tile.n >= 128 else 0.0)
        )
        return _FIXED + rounds * turn + (1 if early else rounds) * joining
    exchanged = count * tile.m * tile.n * 8  # bytes of sums, written and read
    return _FIXED + rounds * turn + 1.5e-6 + exchanged / (PROCESSORS * _LOAD / 2)


def _joins(variant: GemmVariant, count: int) -> bool:
    """Whether so many blocks may share depths as clusters: they run at once, and do not crowd."""
    tile, splits = variant.tile, variant.splits
    return count <= splits * _CLUSTERS[splits] and (
        tile.beside == 1 or (splits == 2 and tile.n <= 32)
    )


def _splits(tile: GemmTile, batch: int) -> bool:
    """Whether blocks may share the depth of a tile."""
    return tile.kind == SIMT or (batch == 1 and tile.kind != TURNS)


def variants(
    m: int,
    n: int,
    k: int,
    batch: int,
    kinds: Collection[str] = (MMA,),
    fits: Callable[[GemmVariant], bool] = lambda variant: True,
) -> list[GemmVariant]:
    """The best of some kinds, and of those that fit, by estimate, best first.

    At most two variants differ in nothing but how many blocks share the depth.
    """
    found = [
        GemmVariant(tile, splits, splits > 1 and not set(kinds) <= set(BY_MEMORY))
        for tile in TILES.values()
        for splits in (_MORE_SPLITS if tile.kind == SIMT else _SPLITS)
        if tile.kind in kinds
        if splits == 1 or (k >= tile.k * splits * 2 and _splits(tile, batch))
    ]
    found = [v for v in found if v.tile.kind != TURNS or blocks(v, m, n, batch) > PROCESSORS]
    found = [v for v in found if not v.joined or _joins(v, blocks(v, m, n, batch))]
    found = [v for v in found if fits(v)]
    found.sort(key=lambda variant: estimate(variant, m, n, k, batch))
    taken: list[GemmVariant] = []
    for variant in found:
        most = WITHIN * estimate(found[0], m, n, k, batch)
        alike = sum(variant.tile == other.tile for other in taken)
        if alike < _ALIKE and estimate(variant, m, n, k, batch) <= most:
            taken.append(variant)
    return taken[: OF_LARGE if 2.0 * m * n * k * batch >= LARGE else MOST_CANDIDATES]
