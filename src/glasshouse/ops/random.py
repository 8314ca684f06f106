"""Random tensors: functions of a seed and an element's index, equal on every backend.

With words w0, w1 of element i (`ops.philox`), and `>>` dropping 8 of 32 bits:

    uniform   u = (w0 >> 8) * 2^-24                        in [0, 1), exact in float32
              low + u * (high - low)                       each step rounded, no fused multiply-add
    normal    a = ((w0 >> 8) + 1) * 2^-24, b = (w1 >> 8) * 2^-24     a in (0, 1]: log(0) cannot be
              z = sqrt(-2 * log(a)) * cos(b * 2 pi)        in float32, 2 pi rounded to float32
              mean + z * std
    dropout   keeps x where (w0 >> 8) >= ceil(p * 2^24), times 1 / (1 - p)

The last step of uniform and normal is in float64 for a float64 tensor, in float32 for all others.
uniform and dropout agree bit for bit everywhere; normal up to the last place of log and cos.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import DIMS, DTYPE, FLOAT
from glasshouse.ir.dim import bounds
from glasshouse.ir.dtype import Category, DType, float32
from glasshouse.ir.op import Kind, NoGradient, Op
from glasshouse.ir.types import Shape, TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.declare import op
from glasshouse.ops.philox import top_bits, words

_UNIT = np.float32(2.0**-24)
RUN_SEED = "random.seed"
"""Name of the variable that a model of PyTorch's counts its seeds from; `runtime.seeds` sets it."""


def _require_seed(seed: TensorType) -> None:
    if seed.dtype.category is not Category.INT or seed.rank:
        raise TypeMismatch(f"the seed must be one integer, not {seed}")


def _made_type(seed: TensorType, *, shape: Shape, dtype: DType, **_: Any) -> TensorType:
    _require_seed(seed)
    if not dtype.is_float:
        raise TypeMismatch(f"dtype must be floating, not {dtype}; cast what comes out")
    for size in shape:
        if bounds(size)[1] < 0:
            raise ShapeError(f"size {size} in shape {list(shape)} is negative")
    return tensor_type(dtype, shape)


def _moved(unit: Array, start: float, width: float, shape: tuple[int, ...], dtype: DType) -> Array:
    kind = np.dtype(np.float64 if dtype.carrier == np.float64 else np.float32)
    out: Array = np.asarray(start, kind) + unit.astype(kind) * np.asarray(width, kind)
    return out.reshape(shape)


def _uniform_ref(
    seed: Array, *, shape: tuple[int, ...], low: float, high: float, dtype: DType
) -> Array:
    word = words(int(seed), math.prod(shape))[0]
    return _moved(top_bits(word).astype(np.float32) * _UNIT, low, high - low, shape, dtype)


def _normal_ref(
    seed: Array, *, shape: tuple[int, ...], mean: float, std: float, dtype: DType
) -> Array:
    w0, w1, _, _ = words(int(seed), math.prod(shape))
    a = (top_bits(w0) + np.uint64(1)).astype(np.float32) * _UNIT
    b = top_bits(w1).astype(np.float32) * _UNIT
    radius = np.sqrt(np.float32(-2) * np.log(a))
    return _moved(radius * np.cos(b * np.float32(2 * math.pi)), mean, std, shape, dtype)


_RANDOM: dict[str, Any] = {
    "kind": Kind.INJECTIVE, "family": "random", "inputs": ("seed",), "infer": _made_type,
    "vjp": NoGradient("it depends on an integer alone"), "shape": DIMS,
}  # fmt: skip
uniform = op(
    "uniform", cost=20, folds=False,
    **_RANDOM, ref=_uniform_ref, low=FLOAT(0.0), high=FLOAT(1.0), dtype=DTYPE(float32),
    doc="Random numbers between low and high, from a seed; rounding may give high itself",
)  # fmt: skip
normal = op(
    "normal", cost=60, folds=False,
    **_RANDOM, ref=_normal_ref, mean=FLOAT(0.0), std=FLOAT(1.0), dtype=DTYPE(float32),
    doc="Normally distributed random numbers, from a seed",
)  # fmt: skip


# ----------------------------------------------------------------------------------------- dropout
def _dropout_type(x: TensorType, seed: TensorType, *, p: float) -> TensorType:
    _require_seed(seed)
    if not x.dtype.is_float:
        raise TypeMismatch(f"x must be floating, not {x.dtype}")
    if not 0.0 <= p <= 1.0:
        raise TypeMismatch(f"p is a probability, not {p}")
    return x


def _dropout_ref(x: Array, seed: Array, *, p: float) -> Array:
    kept: Array = top_bits(words(int(seed), x.size)[0]) >= math.ceil(p * 2**24)
    scale = x.dtype.type(1 / (1 - p) if p < 1 else 0)
    out: Array = np.where(kept.reshape(x.shape), x * scale, x.dtype.type(0))
    return out


dropout: Op = op(
    "dropout", cost=20, narrows=True, folds=False,
    kind=Kind.ELEMENTWISE, family="random", infer=_dropout_type, ref=_dropout_ref,
    inputs=("x", "seed"), p=FLOAT,
    vjp=lambda g, x, seed, y, *, p: (dropout(g, seed, p=p), None),
    doc="x with each element set to 0 with probability p and the others divided by 1 - p",
)  # fmt: skip
