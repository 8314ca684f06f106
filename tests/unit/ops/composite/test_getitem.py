"""`x[...]`, compared with torch, and with NumPy where torch has no negative steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from glasshouse.errors import GlasshouseError, ShapeError, Unsupported
from glasshouse.ir import GraphBuilder, symbol
from glasshouse.numpy_ref import run
from glasshouse.ops import composite as c
from ops.compare import compare, traced
from ops.samples.sample import values

_X = values(4, 5, 6)
_A = np.array([0, -1, 2])
_B = np.array([[1], [3]])
_ALL = slice(None)
_MASK = values(4, 5, seed=2) > 0

_KEYS: list[Any] = [
    0, -1, slice(1, 3), slice(None, None, 2), (_ALL, slice(1, None)), (..., 0), (..., None, 0),
    (None, 1), (_ALL, None, slice(0, -1), 2), (slice(3, 1),), (slice(-2, None), slice(-3, -1)),
    (slice(100, 200),), (1, 2, 3),
    _A, (_ALL, _A), (_A, _B), (_ALL, _A, _B), (_A, _ALL, _B), (0, _A), (_ALL, 0, _A),
    (_A, slice(1, 4), 1), ([0, 2], [1, 1]), (_A, None), (None, _A, _ALL, _B, None),
    (np.zeros((0,), np.int64),), _MASK, (_ALL, values(5, 6, seed=3) > 0.5),
]  # fmt: skip


def _torch_key(key: Any) -> Any:
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(torch.from_numpy(p) if isinstance(p, np.ndarray) else p for p in parts)


@pytest.mark.parametrize("key", _KEYS, ids=repr)
def test_reading(key: Any) -> None:
    compare(lambda x: c.getitem(x, key), lambda x: x[_torch_key(key)], _X)


@pytest.mark.parametrize(
    "key",
    [slice(None, None, -1), (_ALL, slice(None, 1, -2)), (slice(3, 0, -1), 0), slice(0, 2, -1)],
    ids=repr,
)  # fmt: skip
def test_negative_steps(key: Any) -> None:
    graph = traced(lambda x: c.getitem(x, key), _X)
    np.testing.assert_array_equal(run(graph, [_X])[0], _X[key])


def test_computed_indices() -> None:
    places = np.array([[0, 1], [2, 3]])
    compare(lambda x, i: c.getitem(x, (_ALL, i)), lambda x, i: x[:, i], _X, places)
    compare(
        lambda x, i, j: c.getitem(x, (i, _ALL, j)), lambda x, i, j: x[i, :, j],
        _X, places, np.array([1, 0]),
    )  # fmt: skip


def _written(x: torch.Tensor, key: Any, value: Any) -> torch.Tensor:
    out = x.clone()
    out[key] = value
    return out


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (0, (5, 6)), ((_ALL, 1), (4, 6)), ((slice(1, 3), slice(2, 4), slice(0, 2)), (2, 2, 2)),
        ((..., -1), (4, 5)), (_ALL, (4, 5, 6)), ((1, 2, 3), ()), ((slice(1, 3), 2), (6,)),
        ((_ALL, slice(1, 3)), (1,)), (slice(2, 2), (1,)),
    ],
    ids=repr,
)  # fmt: skip
def test_writing(key: Any, shape: tuple[int, ...]) -> None:
    compare(
        lambda x, v: c.setitem(x, key, v), lambda x, v: _written(x, key, v),
        _X, values(*shape, seed=1),
    )  # fmt: skip


def test_writing_a_number() -> None:
    key = (0, slice(1, 2))
    compare(lambda x: c.setitem(x, key, 1.5), lambda x: _written(x, key, 1.5), _X)


def test_index_put() -> None:
    keys, rows = (np.array([0, -1]), np.array([[1], [3]])), np.array([2, 0, 2])
    torch_keys = tuple(map(torch.from_numpy, keys))
    compare(
        lambda x, v: c.index_put(x, keys, v), lambda x, v: x.index_put(torch_keys, v),
        _X, values(2, 1, 6, seed=1),
    )  # fmt: skip
    compare(
        lambda x, v, i: c.index_put(x, [i], v, accumulate=True),
        lambda x, v, i: x.index_put((i,), v, accumulate=True), _X, values(3, 5, 6, seed=1), rows,
    )  # fmt: skip
    with pytest.raises(ShapeError, match="index_put"):
        c.index_put(GraphBuilder().input("float32", (3,)), [_A, _A], 0.0)


def test_lookups() -> None:
    rows = np.array([[1, 0], [3, 1]])
    compare(c.embedding, torch.nn.functional.embedding, rows, values(4, 3))
    compare(lambda x, i: c.index_select(x, 1, i), lambda x, i: x.index_select(1, i), _X, rows[0])
    for axis, size, step in ((0, 2, 1), (-1, 3, 2), (1, 5, 4)):
        compare(
            lambda x, a=axis, n=size, s=step: c.unfold(x, a, n, s),
            lambda x, a=axis, n=size, s=step: x.unfold(a, n, s), _X,
        )  # fmt: skip
    for key in ((0, 0, 1), (2, 1, 2), (-1, -1, 0), (9, 0, 1)):
        compare(
            lambda x, k=key: c.diagonal(x, *k), lambda x, k=key: x.diagonal(*k), _X
        )  # fmt: skip


def test_symbolic_sizes() -> None:
    builder = GraphBuilder()
    n = symbol("n", 1, 64)
    x = builder.input("float32", [n, 5])
    assert c.getitem(x, slice(None, -1)).shape == (n - 1, 5)
    assert c.getitem(x, -1).shape == (5,)
    assert str(c.getitem(x, slice(None, 8)).shape[0]) == "min(8, n)"
    assert c.getitem(x, slice(None, None, -1)).shape == (n, 5)
    graph = builder.finish(c.getitem(x, -1), c.setitem(x, slice(-1, None), 0.0))
    data = values(3, 5).astype(np.float32)
    last, zeroed = run(graph, [data])
    np.testing.assert_array_equal(last, data[-1])
    np.testing.assert_array_equal(zeroed, np.concatenate([data[:2], np.zeros((1, 5))]))


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (4, ShapeError), (-5, ShapeError), ((0, 0, 0, 0), ShapeError), ((..., ...), ShapeError),
        (True, Unsupported), ("a", GlasshouseError), (1.5, GlasshouseError),
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_keys(key: Any, kind: type[Exception]) -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (4, 5, 6))
    with pytest.raises(kind, match="getitem"):
        c.getitem(x, key)


def test_a_computed_mask_says_what_to_do() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (4,))
    with pytest.raises(Unsupported, match="masked_fill"):
        c.getitem(x, x > 0)


def test_writing_where_it_cannot() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (4, 5))
    with pytest.raises(Unsupported, match="scatter"):
        c.setitem(x, slice(None, None, 2), 0.0)
    with pytest.raises(ShapeError, match="out of range"):
        c.setitem(x, 9, 0.0)
