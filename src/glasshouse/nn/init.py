"""What parameters hold at first: PyTorch's distributions, drawn when first needed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from glasshouse.tensor.create import full, rand, randn
from glasshouse.tensor.tensor import Tensor


def uniform(shape: Sequence[int], bound: float) -> Tensor:
    """Even between -bound and bound."""
    return rand(tuple(shape), low=-bound, high=bound)


def normal(shape: Sequence[int], std: float) -> Tensor:
    return randn(tuple(shape), std=std)


def zeros(shape: Sequence[int]) -> Tensor:
    return full(tuple(shape), 0.0)


def ones(shape: Sequence[int]) -> Tensor:
    return full(tuple(shape), 1.0)


def fan_in(shape: Sequence[int]) -> int:
    """How many inputs one output of a weight [out, in, spatial...] reads."""
    return math.prod(shape[1:])


def linear_weight(shape: Sequence[int]) -> Tensor:
    """What PyTorch gives linear and convolutional layers: even within 1 / sqrt(fan in)."""
    return uniform(shape, 1 / math.sqrt(max(1, fan_in(shape))))


def linear_bias(size: int, weight_shape: Sequence[int]) -> Tensor:
    return uniform((size,), 1 / math.sqrt(max(1, fan_in(weight_shape))))


def kaiming_normal_fan_out(shape: Sequence[int]) -> Tensor:
    """For convolutions before a ReLU, as ResNet starts."""
    return normal(shape, math.sqrt(2 / (shape[0] * math.prod(shape[2:]))))


def xavier_uniform(shape: Sequence[int]) -> Tensor:
    return uniform(shape, math.sqrt(6 / (shape[0] + shape[1])))
