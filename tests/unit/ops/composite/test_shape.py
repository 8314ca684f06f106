"""Changes of shape, compared with torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from glasshouse.errors import ShapeError
from glasshouse.ir import GraphBuilder, symbol
from glasshouse.ops import composite as c
from ops.compare import compare
from ops.samples.sample import values

_CASES: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "reshape": (lambda x: c.reshape(x, (-1, 6)), lambda x: x.reshape(-1, 6), (2, 3, 4)),
    "reshape to one axis": (lambda x: c.reshape(x, -1), lambda x: x.reshape(-1), (2, 3)),
    "flatten": (lambda x: c.flatten(x, 1), lambda x: x.flatten(1), (2, 3, 4)),
    "flatten a scalar": (c.flatten, torch.flatten, ()),
    "unflatten": (
        lambda x: c.unflatten(x, -1, (2, -1)), lambda x: x.unflatten(-1, (2, -1)), (3, 4)
    ),
    "squeeze all": (c.squeeze, torch.squeeze, (1, 3, 1)),
    "squeeze one": (lambda x: c.squeeze(x, -1), lambda x: x.squeeze(-1), (1, 3, 1)),
    "squeeze none": (lambda x: c.squeeze(x, 1), lambda x: x.squeeze(1), (1, 3, 1)),
    "unsqueeze": (lambda x: c.unsqueeze(x, -1), lambda x: x.unsqueeze(-1), (2, 3)),
    "unsqueeze two": (lambda x: c.unsqueeze(x, (0, 2)), lambda x: x[None, :, None], (2, 3)),
    "transpose": (lambda x: c.transpose(x, 0, -1), lambda x: x.transpose(0, -1), (2, 3, 4)),
    "moveaxis": (
        lambda x: c.moveaxis(x, [0, 1], [-1, 0]), lambda x: x.movedim([0, 1], [-1, 0]), (2, 3, 4)
    ),
    "broadcast_to": (
        lambda x: c.broadcast_to(x, (5, -1, 3)), lambda x: x.expand(5, -1, 3), (2, 1)
    ),
    "tile": (lambda x: c.tile(x, (2, 1, 3)), lambda x: x.tile(2, 1, 3), (2, 3)),
    "tile fewer": (lambda x: c.tile(x, 2), lambda x: x.tile(2), (2, 3)),
    "repeat_interleave": (
        lambda x: c.repeat_interleave(x, 3, 1), lambda x: x.repeat_interleave(3, 1), (2, 3, 4)
    ),
    "repeat_interleave flat": (
        lambda x: c.repeat_interleave(x, 2), lambda x: x.repeat_interleave(2), (2, 3)
    ),
    "stack": (lambda x: c.stack([x, x * 2.0], -1), lambda x: torch.stack([x, x * 2], -1), (2, 3)),
    "unstack": (lambda x: c.unstack(x, 1), lambda x: x.unbind(1), (2, 3)),
    "unstack one": (lambda x: c.unstack(x, 1), lambda x: x.unbind(1), (2, 1)),
    "split_every": (lambda x: c.split_every(x, 3), lambda x: x.split(3), (7, 2)),
    "chunk": (lambda x: c.chunk(x, 4), lambda x: x.chunk(4), (6, 2)),
    "narrow": (lambda x: c.narrow(x, 1, 1, 2), lambda x: x.narrow(1, 1, 2), (2, 3)),
    "pixel_shuffle": (
        lambda x: c.pixel_shuffle(x, 2), lambda x: F.pixel_shuffle(x, 2), (2, 8, 3, 2)
    ),
    "pixel_unshuffle": (
        lambda x: c.pixel_unshuffle(x, 2), lambda x: F.pixel_unshuffle(x, 2), (3, 4, 2)
    ),
    "pad": (
        lambda x: c.pad_last(x, (1, 2, 0, 1), value=1.5),
        lambda x: F.pad(x, (1, 2, 0, 1), value=1.5),
        (2, 3, 4),
    ),
    "pad by less than nothing": (
        lambda x: c.pad_last(x, (1, -1, -2, 0)), lambda x: F.pad(x, (1, -1, -2, 0)), (2, 3, 4)
    ),
    "pad circular": (
        lambda x: c.pad_last(x, (1, 2), "circular"),
        lambda x: F.pad(x, (1, 2), "circular"),
        (2, 3, 4),
    ),
    "pad replicate": (
        lambda x: c.pad_last(x, (1, 2), "replicate"), lambda x: F.pad(x, (1, 2), "replicate"),
        (2, 3, 4),
    ),
    "tril": (lambda x: c.tril(x, 1), lambda x: x.tril(1), (3, 4)),
    "triu": (c.triu, torch.triu, (3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_against_torch(name: str) -> None:
    function, expected, shape = _CASES[name]
    compare(function, expected, values(*shape))


def test_symbolic_sizes() -> None:
    builder = GraphBuilder()
    n = symbol("n", 1, 64)
    x = builder.input("float32", [n, 6])
    assert c.reshape(x, (-1, 3)).shape == (2 * n, 3)
    assert c.reshape(x, (n, 2, -1)).shape == (n, 2, 3)
    assert c.tile(x, (2, 1)).shape == (2 * n, 6)
    assert [part.shape for part in c.chunk(c.reshape(x, -1), 3)] == [(2 * n,)] * 3


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: c.reshape(x, (-1, -1)), "more than one"),
        (lambda x: c.reshape(x, (-1, 5)), "do not fit"),
        (lambda x: c.unstack(x, 0), "no fixed size"),
        (lambda x: c.chunk(x, 7), "may not divide"),
        (lambda x: c.flatten(x, 1, 0), "behind"),
    ],
)
def test_errors(call: Any, said: str) -> None:
    size = 2 if said == "do not fit" else symbol("n", 1, 64)
    x = GraphBuilder().input("float32", [size, 6])
    with pytest.raises(ShapeError, match=said):
        call(x)
