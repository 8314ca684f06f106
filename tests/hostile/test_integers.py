"""Integers and bools at their limits, and floats that no integer can hold, against PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.errors import ExecutionError
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph
from hostile.difference import difference
from hostile.ops import RTOL
from hostile.values import special

TYPES = ("int8", "int16", "int32", "int64", "uint8", "bool")
FLOATS = ("float32", "float64", "float16", "bfloat16")


def _some(y: Any) -> Any:
    """y without zeros, by which PyTorch does not divide."""
    return torch.where(y == 0, 5, y)


def _above(x: Any) -> Any:
    """x without the least number: PyTorch's process dies of least / -1, rounded towards zero."""
    return x.clamp(min=torch.iinfo(x.dtype).min + 1)


PATTERNS: dict[str, Callable[[Any, Any], Any]] = {
    "add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "negative": lambda x, y: -x,
    "absolute": lambda x, y: x.abs(), "sign": lambda x, y: x.sign(), "square": lambda x, y: x * x,
    "cube": lambda x, y: x**3, "power": torch.pow, "distance": lambda x, y: (x - y).abs() + 1,
    "divide": torch.div, "divide by a number": lambda x, y: x / 7,
    "floor_divide": lambda x, y: x // _some(y),
    "floor_divide by a number": lambda x, y: x // 7,
    "trunc_divide": lambda x, y: torch.div(_above(x), _some(y), rounding_mode="trunc"),
    "remainder": lambda x, y: x % _some(y), "fmod": lambda x, y: torch.fmod(x, _some(y)),
    "remainder by a number": lambda x, y: x % 7,
    "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
    "not": lambda x, y: ~x, "left_shift": lambda x, y: x << y, "right_shift": lambda x, y: x >> y,
    "shift by a number": lambda x, y: (x << 3) >> 2,
    "maximum": torch.maximum, "minimum": torch.minimum, "clamp": lambda x, y: x.clamp(3, 90),
    "clamp above a bound below zero": lambda x, y: x.clamp(min=-3),
    "relu": lambda x, y: x.relu(), "where": lambda x, y: torch.where(x > y, x, y),
    "masked_fill": lambda x, y: x.masked_fill(y == 0, 1),
    "less": torch.lt, "less_equal": torch.le, "equal": torch.eq, "not_equal": torch.ne,
    "logical_and": torch.logical_and, "logical_xor": torch.logical_xor,
    "logical_not": lambda x, y: x.logical_not(), "isfinite": lambda x, y: x.isfinite(),
    "sum": lambda x, y: x.sum(-1), "sum in int32": lambda x, y: x.sum(-1, dtype=torch.int32),
    "prod": lambda x, y: x.prod(-1), "mean": lambda x, y: x.float().mean(-1),
    "amax": lambda x, y: x.amax(-1), "amin": lambda x, y: x.amin(-1),
    "argmax": lambda x, y: (x * 1).argmax(-1), "any": lambda x, y: x.any(-1),
    "all": lambda x, y: x.all(-1), "cumsum": lambda x, y: x.cumsum(-1),
    "cumprod": lambda x, y: x.cumprod(-1), "sort": lambda x, y: x.sort(-1)[0],
    "matmul": torch.matmul, "add a float": lambda x, y: x + 0.5, "sqrt": lambda x, y: x.sqrt(),
    "sigmoid": lambda x, y: x.sigmoid(), "add a wider one": lambda x, y: x + y.to(torch.int64),
    "multiply by a narrower one": lambda x, y: x * (y != 0),
    **{
        f"to {kind}": lambda x, y, kind=kind: x.to(getattr(torch, kind))
        for kind in (*TYPES, *FLOATS)
    },
}  # fmt: skip
FAST = (
    "add",
    "multiply",
    "floor_divide",
    "remainder",
    "fmod",
    "left_shift",
    "to int8",
    "power",
    "sum",
)
CASTS = {
    f"{name} to {kind}": lambda x, y, f=f, kind=kind: f(x).to(getattr(torch, kind))
    for kind in TYPES
    for name, f in (("itself", lambda x: x), ("its negative", lambda x: -x))
}  # fmt: skip


class _Several(torch.nn.Module):
    def __init__(self, calls: list[Callable[[Any, Any], Any]]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, x: Any, y: Any) -> Any:
        return tuple(call(x, y) for call in self.calls)


def _pairs(dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Every pair of the numbers that are special to a type, as two squares."""
    if dtype == "bool":
        numbers = [False, True, True]
    else:
        most, least = torch.iinfo(getattr(torch, dtype)).max, torch.iinfo(getattr(torch, dtype)).min
        small = [0, 1, 2, 3, 7, 8, 31, 64, most // 2, most - 1, most]
        numbers = [*small, *((-1, -2, -7, -64, least, least + 1) if least else ())]
    x, y = zip(*itertools.product(numbers, numbers), strict=True)
    side = len(numbers)
    kind = getattr(torch, dtype)
    return (
        torch.tensor(x, dtype=kind).reshape(side, side),
        torch.tensor(y, dtype=kind).reshape(side, side),
    )


def _array(t: torch.Tensor) -> np.ndarray:
    return (t.float() if t.dtype is torch.bfloat16 else t).numpy()


def _defined(calls: dict[str, Callable[[Any, Any], Any]], x: Any, y: Any) -> dict[str, Any]:
    """What PyTorch gives, for what it has for this type."""
    out = {}
    for name, call in calls.items():
        try:
            out[name] = call(x, y)
        except (RuntimeError, NotImplementedError, TypeError):
            continue
    return out


def _check(calls: dict[str, Any], x: torch.Tensor, y: torch.Tensor, all_ways: bool) -> int:
    wanted = _defined(calls, x, y)
    graph = gh.trace(_Several([calls[name] for name in wanted]), x, y)
    found = {"fused": [_array(o) for o in compile_graph(optimize(graph))(x, y)]}
    if all_ways:
        found["unfused"] = [_array(o) for o in compile_graph(graph)(x, y)]
        with np.errstate(all="ignore"):
            found["reference"] = run(graph, [_array(x), _array(y)])
    wrong = []
    for way, results in found.items():
        for (name, theirs), ours in zip(wanted.items(), results, strict=True):
            kind = str(theirs.dtype).removeprefix("torch.")
            said = difference(np.asarray(ours), _array(theirs), kind, RTOL.get(kind, 0.0), 0.0)
            if said:
                wrong.append(f"{name}, {way}: {said}")
    assert not wrong, f"{len(wrong)} differ from PyTorch\n" + "\n".join(wrong)
    return len(wanted)


@pytest.mark.filterwarnings("ignore")  # NumPy warns of what overflows
def test_some() -> None:
    assert _check({name: PATTERNS[name] for name in FAST}, *_pairs("int32"), False) == len(FAST)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", TYPES)
def test_all(dtype: str) -> None:
    assert _check(PATTERNS, *_pairs(dtype), True) > (30 if dtype == "bool" else 60)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_that_no_integer_holds(dtype: str) -> None:
    """As x86 does it: what int32 (int64 for itself) does not hold is its least number; bits above
    those of a narrow type are dropped."""
    limits = [127.0, 128.0, -129.0, 255.9, 256.0, 32768.0, 65536.0, 2.0**31, -(2.0**31), 2.0**63]
    numbers = [*special(dtype), *limits, *(-n for n in limits)]
    x = torch.tensor(numbers, dtype=torch.float64).to(getattr(torch, dtype))
    assert _check(CASTS, x, x, True) == len(CASTS)


DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floor_divide": lambda x, y: x // y, "remainder": lambda x, y: x % y, "fmod": torch.fmod,
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_the_least_number_by_minus_one(dtype: str) -> None:
    """It wraps; in PyTorch two of these end the process."""
    kind = getattr(torch, dtype)
    least = torch.iinfo(kind).min
    x, y = torch.tensor([least, 7, 7], dtype=kind), torch.tensor([-1, -1, 7], dtype=kind)
    module = gh.compile(_Several(list(DIVISIONS.values())), y, y)
    found = [out.tolist() for out in module(x, y)]
    assert found == [[least, -7, 1], [0, 0, 0], [0, 0, 0], [least, -7, 1]]


@pytest.mark.parametrize("name", list(DIVISIONS))
@pytest.mark.parametrize("way", ["compiled", "fused", "interpreted", "reference"])
def test_zero_divides_no_integer(name: str, way: str) -> None:
    """As in PyTorch the call ends; the error names the op and the line, and the next call runs."""
    divide = DIVISIONS[name]
    x, y = torch.tensor([[7, -7], [8, 1]]), torch.tensor([[2, 3], [2, 3]])
    zero = torch.tensor([[2, 3], [0, 3]])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(x, zero)

    def summed(x: Any, y: Any) -> Any:
        return (divide(x + 1, y) * 2).sum(-1)

    model = _Several([summed if way == "fused" else divide])
    graph = gh.trace(model, x, y)
    call: Callable[..., Any] = gh.compile(graph, target="interp" if way == "interpreted" else "cpu")
    if way == "reference":
        call = lambda *given: run(graph, [t.numpy() for t in given])  # noqa: E731
    with pytest.raises(ExecutionError, match="an integer was divided by zero") as error:
        call(x, zero)
    assert "test_integers.py" in str(error.value)
    assert np.array_equal(np.asarray(call(x, y)[0]), model(x, y)[0])


def test_divisions_that_never_happen() -> None:
    """No element is divided: no error. Floats have a quotient."""
    none, zero = torch.zeros(0, 3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)
    module = gh.compile(_Several(list(DIVISIONS.values())), none, zero)
    assert [o.shape for o in module(none, zero)] == [(0, 3)] * 4
    one = torch.ones(3)
    floats = gh.compile(_Several([DIVISIONS["floor_divide"], torch.div]), one, one)
    for out in floats(one, zero.float()):
        assert out.tolist() == [float("inf")] * 3


def test_a_constant_that_divides_by_zero_is_refused_when_it_runs() -> None:
    """Not while it is compiled: the model may never be called."""
    five, zero = torch.tensor([5, 6]), torch.tensor([1, 0])
    model = _Several([lambda x, y: x + five // zero])
    module = gh.compile(model, five, five)
    with pytest.raises(ExecutionError, match="an integer was divided by zero"):
        module(five, five)
