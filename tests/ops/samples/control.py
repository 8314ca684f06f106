"""Samples of control flow. Bodies are graphs of fixed types, so a sample has one element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from glasshouse.ir.dtype import float64, int64
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.control import body_of, while_loop
from ops.samples.sample import Sample, values


def _f(*shape: int) -> TensorType:
    return tensor_type(float64, shape)


_INDEX = tensor_type(int64, ())
_ONE: dict[str, Any] = {"dtypes": ("float64",)}


# -------------------------------------------------------------------------------------------- cond
def _branches(*types: TensorType) -> dict[str, Any]:
    return {
        "then": body_of(lambda x, w: (x.apply("tanh") @ w, x * 2.0), *types),
        "other": body_of(lambda x, w: (x * x + w, x - 1.0), *types),
    }


def _cond(pred: torch.Tensor, x: torch.Tensor, w: torch.Tensor, **_: Any) -> Any:
    return (torch.tanh(x) @ w, x * 2.0) if pred else (x * x + w, x - 1.0)


def _square(n: int, taken: bool) -> Sample:
    attrs = _branches(_f(n, n), _f(n, n))
    inputs = (np.array(taken), values(n, n), values(n, n, seed=1))
    return Sample(inputs, _cond, attrs, grad="torch", static=(n,), **_ONE)


# -------------------------------------------------------------------------------------- while_loop
def _doubling(*shape: int, limit: int) -> Sample:
    types = (_INDEX, _f(*shape))
    attrs = {
        "test": body_of(lambda i, x: i < limit, *types),
        "body": body_of(lambda i, x: (i + 1, x * 2.0), *types),
    }

    def doubled(i: torch.Tensor, x: torch.Tensor, **_: Any) -> Any:
        return i + limit, x * 2.0**limit

    inputs = (np.array(0), values(*shape))
    return Sample(inputs, doubled, attrs, static=shape, **_ONE)


def _nested() -> Sample:
    """A loop whose body holds a loop."""
    types = (_INDEX, _f(2))

    def step(i: Any, x: Any) -> Any:
        inner = body_of(lambda j, v: j < 3, *types), body_of(lambda j, v: (j + 1, v + 1.0), *types)
        _, grown = while_loop(i * 0, x, test=inner[0], body=inner[1])
        return i + 1, grown

    attrs = {"test": body_of(lambda i, x: i < 2, *types), "body": body_of(step, *types)}
    inputs = (np.array(0), values(2))
    return Sample(inputs, lambda i, x, **_: (i + 2, x + 6.0), attrs, static=(2,), **_ONE)


# -------------------------------------------------------------------------------------------- scan
def _step(h: Any, i: Any, x: Any, w: Any) -> Any:
    new = (h @ w + x).apply("tanh")
    return new, i + 1, new * 2.0, x.apply("sum")


def _rnn(length: int, reverse: bool) -> Sample:
    body = body_of(_step, _f(2, 3), _INDEX, _f(2, 3), _f(3, 3))

    def run(h: Any, i: Any, xs: Any, w: Any, **_: Any) -> Any:
        order = reversed(range(length)) if reverse else range(length)
        ys: list[Any] = [h.new_zeros(2, 3)] * length
        for t in order:
            h = torch.tanh(h @ w + xs[t])
            ys[t] = h * 2.0
        stacked = torch.stack(ys) if ys else xs * 2.0
        return h, i + length, stacked, xs.sum((1, 2))

    inputs = (values(2, 3), np.array(0), values(length, 2, 3, seed=1), values(3, 3, seed=2))
    attrs = {"body": body, "carries": 2, "reverse": reverse}
    return Sample(
        inputs, run, attrs, grad="torch", static=(2, 3), tol=5, why="long formulas", **_ONE
    )


def _powers() -> Sample:
    """Nothing scanned: the count is an attribute."""
    attrs = {
        "body": body_of(lambda x: (x * 2.0, x), _f(3)), "carries": 1, "scanned": 0, "length": 4,
    }  # fmt: skip

    def run(x: torch.Tensor, **_: Any) -> Any:
        return x * 16, torch.stack([x * 2.0**i for i in range(4)])

    return Sample((values(3),), run, attrs, grad="torch", static=(3,), **_ONE)


_TYPES = "its bodies are graphs of fixed types; tests/unit/ops/test_control.py has others"
HOLES = {
    **{(name, "half"): _TYPES for name in ("cond", "while_loop", "scan")},
    **{(name, "symbolic"): _TYPES for name in ("cond", "while_loop")},
}
SAMPLES = {
    "cond": [_square(3, True), _square(3, False), _square(0, True)],
    "while_loop": [_doubling(2, 3, limit=5), _doubling(0, limit=2), _doubling(limit=0), _nested()],
    "scan": [_rnn(4, False), _rnn(5, True), _rnn(0, False), _powers()],
}
