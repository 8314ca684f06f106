"""Patterns that the compiler recognises or fuses, as a user writes them: functions of x [n, 12].

`w` is a vector of 12 ordinary weights. Shapes are made inside, so that one program holds them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from hostile.difference import difference
from hostile.ops import RTOL

Array = np.ndarray[Any, Any]
Pattern = Callable[[Any, Any], Any]
WIDTH = 12


def _softmax(x: Any) -> Any:
    up = (x - x.amax(-1, keepdim=True)).exp()
    return up / up.sum(-1, keepdim=True)


def _layer_norm(x: Any, w: Any) -> Any:
    apart = x - x.mean(-1, keepdim=True)
    return apart / ((apart * apart).mean(-1, keepdim=True) + 1e-5).sqrt() * w


def _image(x: Any) -> Any:
    """[n, 1, 3, 4]"""
    return x.reshape(-1, 1, 3, 4)


def _heads(x: Any) -> Any:
    """[n, 2, 2, 3]: heads, length, width."""
    return x.reshape(-1, 2, 2, 3)


def _by_hand(x: Any) -> Any:
    q = _heads(x)
    return (q @ q.transpose(-1, -2) * 0.5).softmax(-1) @ q


PATTERNS: dict[str, Pattern] = {
    "softmax": lambda x, w: F.softmax(x, -1),
    "softmax over columns": lambda x, w: F.softmax(x, 0),
    "softmax by hand": lambda x, w: _softmax(x),
    "softmax of a sum": lambda x, w: F.softmax(x + w, -1) * w,
    "log_softmax": lambda x, w: F.log_softmax(x, -1),
    "log of softmax": lambda x, w: F.softmax(x, -1).log(),
    "logsumexp": lambda x, w: x.logsumexp(-1),
    "softmin": lambda x, w: F.softmin(x, -1),
    "attention": lambda x, w: F.scaled_dot_product_attention(_heads(x), _heads(x), _heads(x)),
    "attention, causal": lambda x, w: F.scaled_dot_product_attention(
        _heads(x), _heads(x), _heads(x), is_causal=True
    ),
    "attention by hand": lambda x, w: _by_hand(x),
    "layer_norm": lambda x, w: F.layer_norm(x, (WIDTH,), w, w),
    "layer_norm by hand": _layer_norm,
    "rms_norm": lambda x, w: F.rms_norm(x, (WIDTH,), w, 1e-6),
    "rms_norm by hand": lambda x, w: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * w,
    "group_norm": lambda x, w: F.group_norm(x.reshape(-1, 4, 3), 2),
    "instance_norm": lambda x, w: F.instance_norm(x.reshape(-1, 2, 6)),
    "batch_norm": lambda x, w: F.batch_norm(x, w, w.abs() + 0.5, w, w),
    "batch_norm, training": lambda x, w: F.batch_norm(x, None, None, w, w, training=True),
    "normalize": lambda x, w: F.normalize(x, dim=-1),
    "cosine_similarity": lambda x, w: F.cosine_similarity(x, w[None], dim=-1),
    "gelu": lambda x, w: F.gelu(x),
    "gelu, tanh": lambda x, w: F.gelu(x, approximate="tanh"),
    "gelu by hand": lambda x, w: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
    "gelu of a sum": lambda x, w: F.gelu(x + w) * w,
    "silu": lambda x, w: F.silu(x),
    "silu by hand": lambda x, w: x * torch.sigmoid(x),
    "mish": lambda x, w: F.mish(x),
    "softplus": lambda x, w: F.softplus(x),
    "log_sigmoid": lambda x, w: F.logsigmoid(x),
    "hardswish": lambda x, w: F.hardswish(x),
    "hardsigmoid": lambda x, w: F.hardsigmoid(x),
    "hardtanh": lambda x, w: F.hardtanh(x),
    "relu6": lambda x, w: F.relu6(x),
    "elu": lambda x, w: F.elu(x),
    "selu": lambda x, w: F.selu(x),
    "celu": lambda x, w: F.celu(x, 2.0),
    "leaky_relu": lambda x, w: F.leaky_relu(x),
    "prelu": F.prelu,
    "softsign": lambda x, w: F.softsign(x),
    "softshrink": lambda x, w: F.softshrink(x),
    "hardshrink": lambda x, w: F.hardshrink(x),
    "tanhshrink": lambda x, w: F.tanhshrink(x),
    "threshold": lambda x, w: F.threshold(x, 0.1, 20.0),
    "glu": lambda x, w: F.glu(x, -1),
    "mse_loss": lambda x, w: F.mse_loss(x, w.expand_as(x), reduction="none"),
    "l1_loss": lambda x, w: F.l1_loss(x, w.expand_as(x), reduction="none"),
    "smooth_l1_loss": lambda x, w: F.smooth_l1_loss(x, w.expand_as(x), reduction="none"),
    "huber_loss": lambda x, w: F.huber_loss(x, w.expand_as(x), reduction="none"),
    "bce_with_logits": lambda x, w: F.binary_cross_entropy_with_logits(
        x, w.abs().clamp(0, 1).expand_as(x), reduction="none"
    ),
    "kl_div": lambda x, w: F.kl_div(x, w.abs().expand_as(x), reduction="none"),
    "cross_entropy": lambda x, w: F.cross_entropy(
        x, torch.zeros(x.shape[0], dtype=torch.int64), reduction="none"
    ),
    "soft_margin_loss": lambda x, w: F.soft_margin_loss(x, w.expand_as(x), reduction="none"),
    "max_pool": lambda x, w: F.max_pool2d(_image(x), 2, 1, 1),
    "avg_pool": lambda x, w: F.avg_pool2d(_image(x), 2, 1, 1),
    "adaptive_avg_pool": lambda x, w: F.adaptive_avg_pool2d(_image(x), (2, 2)),
    "adaptive_max_pool": lambda x, w: F.adaptive_max_pool2d(_image(x), (2, 2)),
    "cumsum": lambda x, w: x.cumsum(-1),
    "cumprod": lambda x, w: x.cumprod(-1),
    "cummax": lambda x, w: x.cummax(-1)[0],
    "logcumsumexp": lambda x, w: x.logcumsumexp(-1),
    "nearest": lambda x, w: F.interpolate(_image(x), scale_factor=2.0),
    "bilinear": lambda x, w: F.interpolate(_image(x), size=(5, 7), mode="bilinear"),
    "bilinear, corners": lambda x, w: F.interpolate(
        _image(x), size=(5, 7), mode="bilinear", align_corners=True
    ),
    "bicubic": lambda x, w: F.interpolate(_image(x), size=(5, 7), mode="bicubic"),
    "linear": lambda x, w: F.linear(x, w.expand(5, WIDTH), w[:5]),
    "convolution": lambda x, w: F.conv2d(_image(x), w[:4].reshape(1, 1, 2, 2), padding=1),
    "sum": lambda x, w: x.sum(-1),
    "mean": lambda x, w: x.mean(-1),
    "var": lambda x, w: x.var(-1),
    "std": lambda x, w: x.std(-1, unbiased=False),
    "amax": lambda x, w: x.amax(-1),
    "argmax": lambda x, w: x.argmax(-1),
    "argmin": lambda x, w: x.argmin(-1),
    "prod": lambda x, w: x.prod(-1),
    "median": lambda x, w: x.median(-1)[0],
    "sort": lambda x, w: x.sort(-1)[0],
    "topk": lambda x, w: x.topk(3, -1)[0],
    "clamp": lambda x, w: x.clamp(-1.0, 1.0),
    "maximum": torch.maximum,
    "fmax": torch.fmax,
    "minimum": torch.minimum,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "floor_divide": torch.floor_divide,
    "copysign": lambda x, w: torch.copysign(w.expand_as(x), x),
    "sign": lambda x, w: torch.sign(x),
    "round": lambda x, w: torch.round(x),
    "trunc": lambda x, w: torch.trunc(x),
    "frac": lambda x, w: torch.frac(x),
    "abs": lambda x, w: x.abs(),
    "square": lambda x, w: x * x,
    "cube": lambda x, w: x**3,
    "power": lambda x, w: x.abs() ** 0.3,
    "reciprocal": lambda x, w: 1 / x,
    "rsqrt": lambda x, w: x.rsqrt(),
    "sqrt": lambda x, w: x.sqrt(),
    "exp2": lambda x, w: torch.exp2(x),
    "log2": lambda x, w: torch.log2(x),
    "log10": lambda x, w: torch.log10(x),
    "log1p": lambda x, w: torch.log1p(x),
    "expm1": lambda x, w: torch.expm1(x),
    "erfc": lambda x, w: torch.erfc(x),
    "tanh": lambda x, w: torch.tanh(x),
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
    "lerp": lambda x, w: torch.lerp(x, w, 0.3),
    "nan_to_num": lambda x, w: torch.nan_to_num(x),
    "isfinite": lambda x, w: torch.isfinite(x),
    "equal": lambda x, w: x == x,
    "where": lambda x, w: torch.where(x > 0, x, w),
    "masked_fill": lambda x, w: x.masked_fill(x > 1.0, -math.inf),
    "one element": lambda x, w: x.reshape(-1)[:1].softmax(0),
    "transposed": lambda x, w: x.T.softmax(-1),
}


def eager(name: str, x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    """What PyTorch gives: half types in float32, rounded at the end, and also as they are."""
    out = [PATTERNS[name](x, w)]
    if x.dtype in (torch.bfloat16, torch.float16):
        wide = PATTERNS[name](x.float(), w.float())
        out.insert(0, wide.to(x.dtype) if wide.is_floating_point() else wide)
    return out


def nearest(ours: Array, theirs: list[Array], dtype: str, scale: float) -> str:
    """What differs from the first of PyTorch's results, where all of them differ."""
    said = [difference(ours, each, dtype, RTOL[dtype], scale) for each in theirs]
    return said[0] if all(said) else ""


class All(torch.nn.Module):
    """All patterns, or some, as one model."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def forward(self, x: Any, w: Any) -> Any:
        return tuple(PATTERNS[name](x, w) for name in self.names)
