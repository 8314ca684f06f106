"""float64 and float16 through the same vectors as float32: attention, folds, ops behind products.

Odd sizes, masks that leave nothing, NaN and infinities; against PyTorch in the same type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import glasshouse as gh
from hostile.functions import Of


def _close(function: Callable[..., Any], *given: torch.Tensor, like: torch.dtype) -> None:
    module = Of(function)
    compiled = gh.compile(module, *given, progress=False)
    bound = {torch.float64: 1e-12, torch.float16: 4e-3}[like]
    torch.testing.assert_close(
        torch.as_tensor(compiled(*given)), module(*given), rtol=bound, atol=bound, equal_nan=True
    )


BOTH = pytest.mark.parametrize("dtype", [torch.float64, torch.float16])


def _heads(dtype: torch.dtype, length: int, keys: int, width: int = 24) -> list[torch.Tensor]:
    torch.manual_seed(length)
    return [torch.randn(2, 3, n, width, dtype=dtype) for n in (length, keys, keys)]


@BOTH
@pytest.mark.parametrize("length, keys", [(1, 1), (37, 53), (70, 1100)])
def test_attention(dtype: torch.dtype, length: int, keys: int) -> None:
    q, k, v = _heads(dtype, length, keys)
    _close(F.scaled_dot_product_attention, q, k, v, like=dtype)


@BOTH
def test_attention_under_masks(dtype: torch.dtype) -> None:
    q, k, v = _heads(dtype, 19, 19)
    _close(lambda *x: F.scaled_dot_product_attention(*x, is_causal=True), q, k, v, like=dtype)
    added = torch.randn(2, 1, 19, 19, dtype=dtype)
    added[0, 0, 3] = float("-inf")
    _close(
        lambda q, k, v, m: torch.softmax(q @ k.transpose(-1, -2) / 4 + m, -1) @ v,
        q, k, v, added, like=dtype,
    )  # fmt: skip
    kept = torch.rand(2, 1, 19, 19) > 0.3
    kept[1, 0, 5] = False
    _close(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        q, k, v, kept, like=dtype,
    )  # fmt: skip


@BOTH
def test_attention_with_nan_and_infinity(dtype: torch.dtype) -> None:
    q, k, v = _heads(dtype, 17, 33)
    q[0, 0, 2, 1], v[1, 2, 4, 3] = float("nan"), float("inf")
    _close(F.scaled_dot_product_attention, q, k, v, like=dtype)


@BOTH
@pytest.mark.parametrize("width", [1, 15, 16, 33])
def test_rows_of_every_width(dtype: torch.dtype, width: int) -> None:
    x = torch.randn(5, width, dtype=dtype)
    _close(lambda x: torch.softmax(x, -1), x, like=dtype)
    _close(lambda x: F.layer_norm(x, x.shape[-1:]), x, like=dtype)
    _close(lambda x: torch.log_softmax(x, 0) + x.amax(0) * x.sum(1, keepdim=True), x, like=dtype)


def test_every_function_of_float64() -> None:
    x = torch.linspace(-9, 9, 77, dtype=torch.float64)
    x[::11] = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-310, 700.0])

    def all_of_them(x: torch.Tensor) -> torch.Tensor:
        y = [f(x) for f in (
            torch.exp, torch.expm1, torch.log, torch.log1p, torch.tanh, torch.sigmoid, torch.erf,
            torch.sin, torch.cos, torch.sqrt, torch.rsqrt, torch.abs, torch.sign, torch.floor,
            torch.ceil, torch.trunc, torch.round, torch.asin, torch.atan, torch.sinh, F.silu,
            F.gelu, F.relu, F.softplus, F.leaky_relu, F.elu, F.hardswish, F.hardsigmoid,
        )]  # fmt: skip
        y += [x.clamp(-1, 2), x**3, torch.where(x > 0, x, -x), x.isnan().double()]
        y += [(x > 1).to(x.dtype), x.float().double(), x.atan2(x + 1), x.maximum(x.flip(0))]
        return torch.stack(y)

    _close(all_of_them, x, like=torch.float64)


@BOTH
def test_what_follows_a_product(dtype: torch.dtype) -> None:
    x, w, b = (torch.randn(*s, dtype=dtype) for s in ((9, 35), (37, 35), (37,)))
    _close(lambda x, w, b: torch.tanh(F.linear(x, w, b)) * 2 + x[:, :1], x, w, b, like=dtype)
    _close(lambda x, w, b: F.gelu(F.linear(x, w, b).to(torch.float32)), x, w, b, like=torch.float16)


@BOTH
@pytest.mark.parametrize(
    "channels, filters, options",
    [
        (3, 17, {"padding": 1}),
        (33, 5, {"stride": 2, "padding": 2, "dilation": 2}),
        (12, 24, {"groups": 3, "padding": 1}),
        (19, 19, {"groups": 19, "padding": 1}),  # every channel by itself
    ],
)
def test_convolutions(
    dtype: torch.dtype, channels: int, filters: int, options: dict[str, Any]
) -> None:
    torch.manual_seed(channels)
    x = torch.randn(2, channels, 11, 18, dtype=dtype)
    w = torch.randn(filters, channels // options.get("groups", 1), 3, 3, dtype=dtype) / 9
    b = torch.randn(filters, dtype=dtype)
    x[1, 0, 3, 4] = float("nan")
    _close(lambda x, w, b: torch.tanh(F.conv2d(x, w, b, **options)), x, w, b, like=dtype)


@BOTH
def test_pointwise_and_one_dimension(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 18, 7, 9, dtype=dtype), torch.randn(35, 18, 1, 1, dtype=dtype) / 4
    _close(lambda x, w: F.relu(F.conv2d(x, w)), x, w, like=dtype)
    x, w = torch.randn(2, 18, 31, dtype=dtype), torch.randn(7, 18, 5, dtype=dtype) / 9
    _close(lambda x, w: F.gelu(F.conv1d(x, w, padding=4, dilation=2)), x, w, like=dtype)


@BOTH
def test_pools(dtype: torch.dtype) -> None:
    x = torch.randn(2, 19, 9, 13, dtype=dtype)
    x[0, 1, 2, 3] = float("nan")
    _close(lambda x: F.max_pool2d(x, 3, 2, 1) * 2, x, like=dtype)
    _close(
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), x, like=dtype
    )
    _close(lambda x: F.adaptive_avg_pool2d(F.relu(x), 1), x, like=dtype)
