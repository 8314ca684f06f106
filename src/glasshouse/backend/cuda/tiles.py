"""Sizes of the tiles of a product on tensor cores, and which suits a problem: the cost model.

A candidate is a tile and a number of blocks that share its depth. The model counts what a
multiprocessor computes and what it loads, and how many rounds of blocks the chip needs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

PROCESSORS = 132
"""Multiprocessors of the chip that tiles are chosen for (H100, H200)."""
MOST_CANDIDATES = 8


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
    hopper: bool = False  # by instructions of warpgroups, for operands that lie along the depth
    beside: int = 1  # blocks that a multiprocessor holds: one computes while another stores

    @property
    def threads(self) -> int:
        if self.hopper:
            return self.m // 64 * 128
        return (self.m // self.warp_m) * (self.n // self.warp_n) * 32

    @property
    def shared(self) -> int:
        loaded = self.stages * (self.m + self.n) * self.k * 2
        return max(loaded, self.m * (self.n + 4) * 4)

    @property
    def name(self) -> str:
        many = f"_by{self.beside}" if self.beside > 1 else ""
        return f"{'wgmma' if self.hopper else 'mma'}{self.m}x{self.n}x{self.k}{many}"

    @property
    def function(self) -> str:
        return "gh::gemm_wgmma" if self.hopper else "gh::gemm_mma"

    @property
    def text(self) -> str:
        if self.hopper:
            return f"gh::Groups<{self.m}, {self.n}, {self.stages}>"
        sizes = (self.m, self.n, self.k, self.warp_m, self.warp_n, self.stages)
        return f"gh::Tile<{', '.join(map(str, sizes))}>"


TILES = {
    tile.name: tile
    for tile in (
        GemmTile(128, 256, 64, 64, 256, 4, 1.0, True),
        GemmTile(128, 128, 64, 64, 128, 5, 0.9, True),
        GemmTile(128, 128, 64, 64, 128, 3, 0.9, True, 2),
        GemmTile(128, 64, 64, 64, 64, 6, 0.75, True),
        GemmTile(64, 128, 64, 64, 128, 6, 0.75, True),
        GemmTile(64, 64, 64, 64, 64, 6, 0.6, True),
        GemmTile(64, 32, 64, 64, 32, 6, 0.4, True),
        GemmTile(128, 256, 32, 64, 64, 4, 1.0),
        GemmTile(128, 128, 32, 64, 32, 4, 0.9),
        GemmTile(128, 64, 32, 32, 32, 5, 0.75),
        GemmTile(64, 128, 32, 32, 32, 5, 0.75),
        GemmTile(64, 64, 64, 32, 32, 4, 0.6),
        GemmTile(64, 32, 64, 32, 16, 5, 0.45),
        GemmTile(32, 64, 64, 16, 32, 5, 0.45),
        GemmTile(32, 32, 128, 16, 16, 4, 0.3),
        GemmTile(16, 64, 128, 16, 16, 4, 0.25),
    )
}
_SPLITS = (1, 2, 3, 4, 6, 8)
_RATE = 200e12 / PROCESSORS  # operations a second of one multiprocessor through mma.sync
_HOPPER_RATE = 700e12 / PROCESSORS  # and by warpgroups
_LOAD = 5.5e12 / PROCESSORS  # bytes a second from the second-level cache
_FIXED = 2.0e-6  # a launch, the first loads, the last stores
_STEP = 1.2e-7  # the least time of one step in depth


@dataclass(frozen=True)
class GemmWay:
    """A tile, and how many blocks share its depth."""

    tile: GemmTile
    splits: int = 1

    @property
    def name(self) -> str:
        return self.tile.name + (f"_split{self.splits}" if self.splits > 1 else "")


def way_named(name: str) -> GemmWay:
    found = re.fullmatch(r"((?:wg)?mma\d+x\d+x\d+(?:_by\d)?)(?:_split(\d+))?", name)
    assert found is not None, name
    return GemmWay(TILES[found[1]], int(found[2] or 1))


def blocks(way: GemmWay, m: int, n: int, batch: int) -> int:
    tile = way.tile
    return math.ceil(m / tile.m) * math.ceil(n / tile.n) * batch * way.splits


def estimate(way: GemmWay, m: int, n: int, k: int, batch: int) -> float:
    """Seconds."""
    tile = way.tile
    depth = math.ceil(math.ceil(k / tile.k) / way.splits) * tile.k
    rate = _HOPPER_RATE if tile.hopper else _RATE
    computed = 2 * tile.m * tile.n * depth / (rate * tile.speed)
    loaded = (tile.m + tile.n) * depth * 2 / _LOAD
    rounds = math.ceil(blocks(way, m, n, batch) / PROCESSORS)
    together = min(rounds, max(1, (227 << 10) // tile.shared), 2048 // tile.threads)
    turn = max(computed, loaded, depth / tile.k * _STEP / together)
    # Few rounds leave nothing to compute while a block stores its results.
    alone = 1.4 if tile.beside > 1 and rounds < 4 else 0.92 if tile.beside > 1 else 1.0
    if way.splits == 1:
        return _FIXED + rounds * turn * alone
    exchanged = blocks(way, m, n, batch) * tile.m * tile.n * 8  # bytes of sums, written and read
    return _FIXED + rounds * turn * alone + 1.5e-6 + exchanged / (PROCESSORS * _LOAD / 2)


def ways(m: int, n: int, k: int, batch: int, hopper: bool = False) -> list[GemmWay]:
    """The best by estimate, best first; `hopper`: instructions of warpgroups among them."""
    found = [
        GemmWay(tile, splits)
        for tile in TILES.values()
        for splits in _SPLITS
        if hopper or not tile.hopper
        if splits == 1 or (k >= tile.k * splits * 2 and batch == 1)
    ]
    found.sort(key=lambda way: estimate(way, m, n, k, batch))
    return found[:MOST_CANDIDATES]
