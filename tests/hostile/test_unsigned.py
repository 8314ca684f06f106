"""uint32 and uint64, of which PyTorch has a few ops only, at their limits against NumPy: each op is
compiled fused, compiled as it stands, and run on the reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.errors import ExecutionError, TypeMismatch
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import ALL, BY_NAME, promote
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph

TYPES = ("uint32", "uint64")
Ours = Callable[[Any, Any], Any]
Theirs = Callable[[Any, Any], Any]


def _made(op: str, **attrs: Any) -> Ours:
    return lambda x, y: x.apply(op, y, **attrs)


def _of_one(op: str, **attrs: Any) -> Ours:
    return lambda x, y: x.apply(op, **attrs)


def _shift(x: Any, n: Any, f: Callable[..., Any]) -> Any:
    """By as many bits as there are, or more, nothing is left."""
    bits = x.dtype.itemsize * 8
    return np.where(n >= bits, x.dtype.type(0), f(x, np.minimum(n, x.dtype.type(bits - 1))))


CALLS: dict[str, tuple[Ours, Theirs]] = {
    "add": (_made("add"), np.add),
    "subtract": (_made("subtract"), np.subtract),
    "multiply": (_made("multiply"), np.multiply),
    "divide": (lambda x, y: x / (y | 1),
               lambda x, y: x.astype("f") / (y | y.dtype.type(1)).astype("f")),
    "floor_divide": (lambda x, y: x // y.apply("maximum", 1), lambda x, y: x // np.maximum(y, 1)),
    "remainder": (lambda x, y: x % y.apply("maximum", 3), lambda x, y: x % np.maximum(y, 3)),
    "maximum": (_made("maximum"), np.maximum),
    "minimum": (_made("minimum"), np.minimum),
    "power": (lambda x, y: x.apply("power", y % 5), lambda x, y: x ** (y % y.dtype.type(5))),
    "negative": (_of_one("negative"), lambda x, y: np.negative(x)),
    "absolute": (_of_one("absolute"), lambda x, y: x),
    "sign": (_of_one("sign"), lambda x, y: np.sign(x)),
    "clip": (_of_one("clip", low=3, high=2**31 + 9), lambda x, y: np.clip(x, 3, 2**31 + 9)),
    "clip below": (_of_one("clip", low=-3), lambda x, y: x),
    "relu": (_of_one("relu"), lambda x, y: x),
    "less": (_made("less"), np.less),
    "greater_equal": (_made("greater_equal"), np.greater_equal),
    "equal": (_made("equal"), np.equal),
    "and": (_made("bitwise_and"), np.bitwise_and),
    "xor": (_made("bitwise_xor"), np.bitwise_xor),
    "not": (_of_one("bitwise_not"), lambda x, y: ~x),
    "left_shift": (_made("left_shift"), lambda x, y: _shift(x, y, np.left_shift)),
    "right_shift": (_made("right_shift"), lambda x, y: _shift(x, y, np.right_shift)),
    "where": (lambda x, y: (x > y).apply("where", x, y), np.maximum),
    "a large number": (lambda x, y: x ^ (2**31 + 5), lambda x, y: x ^ x.dtype.type(2**31 + 5)),
    "sum": (_of_one("sum", axes=[1]), lambda x, y: x.sum(1).astype(np.int64)),
    "prod": (_of_one("prod", axes=[1]), lambda x, y: x.prod(1).astype(np.int64)),
    "max": (_of_one("max", axes=[0]), lambda x, y: x.max(0)),
    "min": (_of_one("min", axes=[0]), lambda x, y: x.min(0)),
    "argmax": (_of_one("argmax", axis=1), lambda x, y: (x * 1).argmax(1)),
    "cumsum": (_of_one("cumsum", axis=1), lambda x, y: x.cumsum(1).astype(np.int64)),
    "cummax": (lambda x, y: y.apply("cummax", axis=0)[0], lambda x, y: np.maximum.accumulate(y, 0)),
    "sort": (lambda x, y: y.apply("sort", axis=1)[0], lambda x, y: np.sort(y, 1)),
    "topk": (lambda x, y: y.apply("topk", k=3)[0], lambda x, y: -np.sort(-y.astype("O"), 1)[:, :3]),
    "permute": (_of_one("permute", axes=(1, 0)), lambda x, y: x.T),
    "pad": (_of_one("pad", padding=(1, 0, 0, 2), value=7),
            lambda x, y: np.pad(x, ((1, 0), (0, 2)), constant_values=7)),
    **{
        f"to {d.name}": (
            lambda x, y, d=d: x.cast(d), lambda x, y, d=d: x.astype(d.carrier),
        )
        for d in ALL if d.name not in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
    },
}  # fmt: skip


def _pairs(dtype: str) -> list[Any]:
    most = int(np.iinfo(dtype).max)
    numbers = [0, 1, 2, 3, 7, 31, 32, 63, 64, most // 2, most // 2 + 1, most - 1, most]
    x, y = zip(*itertools.product(numbers, numbers), strict=True)
    return [np.array(n, dtype).reshape(len(numbers), -1) for n in (x, y)]


def _graph(calls: list[Ours], arrays: list[Any]) -> Graph:
    builder = GraphBuilder()
    x, y = (builder.input(BY_NAME[a.dtype.name], a.shape) for a in arrays)
    return builder.finish(*[call(x, y) for call in calls])


def _wrong(calls: dict[str, tuple[Ours, Theirs]], arrays: list[Any]) -> list[str]:
    graph = _graph([ours for ours, _ in calls.values()], arrays)
    ways = {
        "fused": compile_graph(optimize(graph)), "unfused": compile_graph(graph),
        "reference": lambda *given: run(graph, list(given)),
    }  # fmt: skip
    out = []
    for way, call in ways.items():
        for (name, (_, theirs)), found in zip(calls.items(), call(*arrays), strict=True):
            wanted = np.asarray(theirs(*arrays))
            wanted = wanted.astype(arrays[0].dtype) if wanted.dtype == object else wanted
            if found.dtype != wanted.dtype:
                out.append(f"{name}, {way}: {found.dtype} instead of {wanted.dtype}")
            elif not np.array_equal(found, wanted):
                i = tuple(np.argwhere(found != wanted)[0])
                out.append(f"{name}, {way}: {found[i]} instead of {wanted[i]} at {i}")
    return out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # NumPy warns of what overflows
@pytest.mark.parametrize("dtype", TYPES)
def test_limits_as_in_numpy(dtype: str) -> None:
    assert not _wrong(CALLS, _pairs(dtype))


FAST = ("add", "floor_divide", "right_shift", "less", "clip below", "max", "a large number")


@pytest.mark.filterwarnings("ignore")
def test_some_limits_as_in_numpy() -> None:
    assert not _wrong({name: CALLS[name] for name in FAST}, _pairs("uint64"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", TYPES)
def test_floats_that_it_holds(dtype: str) -> None:
    """Up to its largest number; numbers below zero wrap, as those of the signed type do."""
    bits = np.iinfo(dtype).bits
    numbers = [0.0, -0.0, 0.9, 1.5, 2.0 ** (bits - 1), 2.0 ** (bits - 1) * 1.5, -1.0, -2.5]
    numbers.append(2.0**bits - 2.0 ** (bits - 24))  # the largest below that float32 has
    wanted = np.array([[int(n) % 2**bits for n in numbers]], dtype)
    arrays = [np.array([numbers], kind) for kind in ("float32", "float64")]
    casts = [lambda x, y: x.cast(BY_NAME[dtype]), lambda x, y: y.cast(BY_NAME[dtype])]
    for found in compile_graph(optimize(_graph(casts, arrays)))(*arrays):
        assert np.array_equal(found, wanted)


def test_a_zero_divides_none() -> None:
    x, y = np.array([7, 8], "uint64"), np.array([2, 0], "uint64")
    module = compile_graph(_graph([lambda x, y: x // y], [x, y]))
    with pytest.raises(ExecutionError):
        module(x, y)


def test_there_is_no_common_type_with_other_whole_numbers() -> None:
    """As in PyTorch; NumPy would compute in float64."""
    for a, b in (("uint64", "int64"), ("uint32", "uint64"), ("uint8", "uint32")):
        with pytest.raises(TypeMismatch, match="no common type"):
            promote(BY_NAME[a], BY_NAME[b])
    assert promote(BY_NAME["uint64"], BY_NAME["float32"]) is BY_NAME["float32"]


def test_tensors_of_pytorch_go_in_and_out() -> None:
    x = torch.tensor([[1, 2**64 - 1], [2**63, 0]], dtype=torch.uint64)

    class Mixed(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x ^ 5, x.t().contiguous(), x == 0, x.to(torch.int64), x.float()

    module = gh.compile(Mixed(), x)
    for given in (x, x.t(), x.flip(0)):
        for found, wanted in zip(module(given), Mixed()(given), strict=True):
            assert found.dtype is wanted.dtype
            assert torch.equal(found, wanted)
