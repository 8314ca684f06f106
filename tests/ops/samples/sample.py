"""What a sample of an op is: operands, attributes, and what PyTorch says of them.

    SAMPLES = {"relu": [Sample((values(3, 4),), torch.relu), Sample((values(0, 4),), torch.relu)]}
    HOLES = {("relu", "second"): "why this crossing does not exist"}

Operands whose NumPy type is the first of `dtypes` are tried with each of them; the others (an index
beside a float operand) stay as they are. bfloat16 exists here as a name only: values are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]

FLOATS = ("float64", "float32", "float16", "bfloat16")
WIDE = ("float64", "float32")  # where half precision says nothing new or torch is no judge
INTS = ("int64", "int32", "int16", "int8", "uint8")
SIGNED = ("int64", "int32", "int16", "int8")
BOOLS = ("bool",)
INDICES = ("int64", "int32")


@dataclass(frozen=True)
class Sample:
    """One call of an op; `torch(*tensors, **attrs)` gives the expected output or outputs.

    `grad` says how the gradient is checked: by finite differences ("fd"), against torch's autograd
    ("torch", for samples that sit on a kink), or not here (None). `second` asks for the gradient of
    the gradient too. `static` lists sizes that stay numbers when sizes become symbols one by one.
    `tol` widens the tolerance by a factor, `why` says for what reason.
    """

    inputs: Sequence[Array]
    torch: Callable[..., Any] | None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Sequence[str] = FLOATS
    grad: Literal["fd", "torch"] | None = "fd"
    second: bool = True
    static: Sequence[int] = ()
    tol: float = 1.0
    why: str = ""

    def __post_init__(self) -> None:
        if (self.tol != 1.0 or self.torch is None) and not self.why:
            raise ValueError("a wider tolerance, or no comparison with torch, needs a reason")


def values(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Array:
    """float64 values between `low` and `high`, the same ones in every run."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


def integers(*shape: int, low: int = -9, high: int = 10, seed: int = 0) -> Array:
    """int64 values from `low` to `high` - 1, the same ones in every run."""
    return np.random.default_rng([seed, *shape]).integers(low, high, shape)


def bools(*shape: int, seed: int = 0) -> Array:
    return integers(*shape, low=0, high=2, seed=seed).astype(bool)


def distinct(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Array:
    """Values evenly spaced and shuffled: no ties, and finite differences change no order."""
    count = int(np.prod(shape))
    spread = np.linspace(low, high, max(count, 1))[:count]
    return np.random.default_rng([seed, *shape]).permutation(spread).reshape(shape)


def away(array: Array, *points: float, gap: float = 0.05) -> Array:
    """The same values, none nearer than `gap` to `points`, where a function has a kink or jump."""
    for point in points:
        near = np.abs(array - point) < gap
        array = np.where(near, point + np.where(array >= point, gap, -gap) * 2, array)
    return array
