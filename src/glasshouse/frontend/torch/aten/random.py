"""How ATen's random ops are spelled: numbers from a seed, which PyTorch's generator gives.

A seed is a variable of the graph. Each call sets it from PyTorch's default generator
(`runtime.seeds`), so that `torch.manual_seed` fixes the results; without PyTorch it counts up. The
numbers are not those that eager code would draw, as with `torch.compile`; and as there, with
`torch._inductor.config.fallback_random` they are: then PyTorch itself runs these ops.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import Context, apply, aten, is_handle
from glasshouse.frontend.torch.dtypes import dtype_of
from glasshouse.ir.dtype import DType, float32, int64
from glasshouse.ops.random import RUN_SEED

_SELU_FLOOR = 1.7580993408473766  # minus what SELU gives for minus infinity


def seed(ctx: Context) -> Any:
    """A seed of its own for each op that draws: the run's seed plus the number of draws so far."""
    options = sys.modules.get("torch._inductor.config")
    if getattr(options, "fallback_random", False):
        raise Unsupported("fallback_random asks for the numbers that eager code draws")
    builder = ctx.builder
    graph = builder.graph
    held = next((n for n in graph.updates if n.attrs["name"] == RUN_SEED), None)
    if held is None:
        run = builder.variable(0, int64, RUN_SEED)
        # 2**20 draws in one run before two runs share a seed.
        builder.update(run, run + 2**20)
    else:
        run = builder.wrap(held.output)
    return run + sum(1 for _ in run.value.users)


def dropped(ctx: Context, x: Any, p: float) -> Any:
    """x after a dropout in training."""
    return x.apply("dropout", seed(ctx), p=float(p)) if p > 0 else x


@aten("dropout", "feature_dropout.never", context=True)
def dropout(ctx: Context, x: Any, p: float, train: bool) -> Any:
    return dropped(ctx, x, p) if train else x


@aten("native_dropout", context=True)
def native_dropout(ctx: Context, x: Any, p: float, train: bool | None) -> Any:
    if train is False:
        return x, ctx.full(x.shape, True, dtype_of(ctx.fx_node.meta["val"][1].dtype))
    ones = ctx.full(x.shape, 1, x.dtype)
    kept = dropped(ctx, ones, p)
    return x * kept, kept > 0


@aten("feature_dropout", context=True)
def feature_dropout(ctx: Context, x: Any, p: float, train: bool) -> Any:
    if not train or p == 0:
        return x
    return x * dropped(ctx, ctx.full(_channels(x), 1, x.dtype), p)


def _channels(x: Any) -> tuple[Any, ...]:
    """One number for each channel of each sample."""
    return (*x.shape[:2], *[1] * (x.ndim - 2))


@aten("alpha_dropout", "feature_alpha_dropout", context=True)
def alpha_dropout(ctx: Context, x: Any, p: float, train: bool) -> Any:
    """What is dropped becomes the value that SELU has far below zero; then scaled and moved so that
    mean and variance stay."""
    if not train or p == 0:
        return x
    if p == 1:
        return x * 0.0
    whole = ctx.fx_node.target._schema.name == "aten::feature_alpha_dropout"
    kept = _drawn(ctx, "uniform", _channels(x) if whole else x.shape) >= float(p)
    scale = 1.0 / math.sqrt((_SELU_FLOOR * _SELU_FLOOR * p + 1.0) * (1.0 - p))
    out = apply("where", kept, x, -_SELU_FLOOR)
    return out * scale + _SELU_FLOOR * scale * p


def _kind(ctx: Context) -> DType:
    found = dtype_of(ctx.fx_node.meta["val"].dtype)
    return found if found.is_float else float32


def _drawn(ctx: Context, op: str, shape: Any, **attrs: Any) -> Any:
    return seed(ctx).apply(op, shape=tuple(shape), dtype=_kind(ctx), **attrs)


aten("rand", context=True)(lambda ctx, size, *_, **__: _drawn(ctx, "uniform", size))
aten("randn", context=True)(lambda ctx, size, *_, **__: _drawn(ctx, "normal", size))
aten("rand_like", context=True)(lambda ctx, x, *_, **__: _drawn(ctx, "uniform", x.shape))
aten("randn_like", context=True)(lambda ctx, x, *_, **__: _drawn(ctx, "normal", x.shape))


@aten("uniform", "uniform_", context=True)
def uniform(ctx: Context, x: Any, low: float = 0.0, high: float = 1.0, **_: Any) -> Any:
    return _drawn(ctx, "uniform", x.shape, low=float(low), high=float(high))


@aten("normal_", "normal_functional", context=True)
def normal(ctx: Context, x: Any, mean: float = 0.0, std: float = 1.0, **_: Any) -> Any:
    return _drawn(ctx, "normal", x.shape, mean=float(mean), std=float(std))


@aten("bernoulli.default", context=True)
def bernoulli(ctx: Context, x: Any, **_: Any) -> Any:
    return (_drawn(ctx, "uniform", x.shape) < x).cast(x.dtype)


@aten("bernoulli.p", "bernoulli_.float", context=True)
def bernoulli_p(ctx: Context, x: Any, p: float = 0.5, **_: Any) -> Any:
    return (_drawn(ctx, "uniform", x.shape) < float(p)).cast(x.dtype)


@aten("randint", "randint.low", context=True)
def randint(ctx: Context, *args: Any, **_: Any) -> Any:
    low, high, size = (0, *args[:2]) if isinstance(args[1], (list, tuple)) else args[:3]
    if is_handle(low) or is_handle(high):
        raise Unsupported("limits that depend on data")
    unit = seed(ctx).apply("uniform", shape=tuple(size), dtype=float32)
    span = ctx.full((), high - low, float32)
    steps = apply(
        "minimum", (unit * span).apply("floor").cast(int64), ctx.full((), high - low - 1, int64)
    )
    return steps + ctx.full((), low, int64)


@aten("exponential", "exponential_", context=True)
def exponential(ctx: Context, x: Any, rate: float = 1.0, **_: Any) -> Any:
    unit = _drawn(ctx, "uniform", x.shape)
    return -((-unit).apply("log1p")) * (1.0 / rate)
