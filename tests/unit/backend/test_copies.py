"""Copies of every kind move elements as they are: runs, reversed runs, swapped axes, and ranges of
positions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import glasshouse as gh
from glasshouse.backend.cpu.ranges import ranges_of
from glasshouse.backend.cpu.runs import run_of
from glasshouse.backend.cpu.turned import turned
from glasshouse.ir import GraphBuilder
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.statement import For
from glasshouse.lower.lower import lower

Move = Callable[[torch.Tensor], torch.Tensor]

MOVES: dict[str, Move] = {
    "rows": lambda x: x[::2],
    "rotated": torch.rot90,
    "rotated back": lambda x: torch.rot90(x, 3),
    "half a turn": lambda x: torch.rot90(x, 2),
    "swapped": lambda x: x.t().contiguous(),
    "mirrored": lambda x: x.flip(1),
    "upside down": lambda x: x.flip(0),
    "rolled as a row": lambda x: x.roll(5),
    "rolled": lambda x: x.roll((-3, 7), (0, 1)),
    "repeated": lambda x: x.repeat(2, 3),
    "each repeated": lambda x: x.repeat_interleave(5, 1),
    "spread": lambda x: x[:, :1].expand(-1, 37).contiguous(),
    "joined": lambda x: torch.cat([x, x[:, 3:5], x], 1).flatten(),
    "blocks": lambda x: torch.block_diag(x[:9, :4], x[:3], x[4:5, :2]),
    "lower": lambda x: x.tril(-2),
    "upper": lambda x: x.triu(1),
    "diagonal": lambda x: x[2].diag(3),
    "diagonals": lambda x: x[:4, :9].diag_embed(-1),
    "padded": lambda x: F.pad(x, (2, 3, 1, 0)),
    "columns reversed, swapped": lambda x: x.flip(1).t().contiguous(),
    "pieces swapped": lambda x: x[:, :24].reshape(19, 8, 3).transpose(0, 1).contiguous(),
    "pairs swapped": lambda x: x[:, :24].reshape(19, 12, 2).transpose(0, 1).contiguous(),
}
"""Of arrays of 19 x 37: no row begins where a vector does."""


class Moves(nn.Module):
    def __init__(self, moves: list[Move]) -> None:
        super().__init__()
        self.moves = moves

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [move(x) for move in self.moves]


def _bits(x: torch.Tensor) -> torch.Tensor:
    x = torch.view_as_real(x) if x.is_complex() else x
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.contiguous().view(whole[x.element_size()])


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8],
    ids=str,
)  # fmt: skip
def test_copies_keep_every_bit(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = (torch.randn(19, 37, dtype=torch.float64) * 50).to(dtype)
    if dtype.is_floating_point:
        x[3, 5], x[4, 0], x[18, 36], x[0, 7] = float("nan"), float("inf"), -0.0, 1e-40
    found = gh.compile(Moves([*MOVES.values()]), x)(x)
    for name, move, y in zip(MOVES, MOVES.values(), found, strict=True):
        wanted = move(x)
        assert y.shape == wanted.shape, name
        assert torch.equal(_bits(y), _bits(wanted)), name


def test_complex_numbers_are_moved_as_pairs() -> None:
    torch.manual_seed(0)
    x = torch.randn(19, 37, dtype=torch.complex64)
    moves = [MOVES[n] for n in ("swapped", "rotated", "mirrored", "rolled as a row", "joined")]
    found = gh.compile(Moves(moves), x)(x)
    for move, y in zip(moves, found, strict=True):
        assert torch.equal(_bits(y), _bits(move(x)))


def _kernel(group: Callable[[GraphBuilder], object]) -> Kernel:
    from glasshouse.backend.cpu.target import CPU

    b = GraphBuilder()
    (kernel,) = lower(b.finish(group(b)), CPU).kernels
    return kernel


def _innermost(kernel: Kernel) -> For:
    (nest,) = kernel.body
    assert isinstance(nest, For)
    while isinstance(nest.body[0], For):
        nest = nest.body[0]
    return nest


def test_a_rotation_is_a_turned_copy() -> None:
    def rotated(b: GraphBuilder) -> object:
        x = b.input("float32", [16, 24])
        inside = GraphBuilder()
        y = inside.input("float32", [16, 24]).apply("flip", axes=[1]).apply("permute", axes=[1, 0])
        return x.apply("fused", body=inside.finish(y))

    (nest,) = _kernel(rotated).body
    assert isinstance(nest, For)
    found = turned(nest)
    assert found is not None
    assert found.load.index.coefficient(found.columns) == -1


def test_a_slice_is_runs_and_a_triangle_two_ranges() -> None:
    slices = _kernel(
        lambda b: b.input("int64", [8, 9]).apply("slice", starts=[0, 1], ends=[8, 7], steps=[2, 1])
    )
    assert run_of(_innermost(slices)) is not None
    triangle = _innermost(_kernel(lambda b: b.input("float32", [8, 9]).apply("triangle")))
    ranges = ranges_of(triangle)
    assert ranges is not None
    assert len(ranges.points) == 1
    assert all(run_of(For(triangle.loop, triangle.role, body)) for body in ranges.bodies)
