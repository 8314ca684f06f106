"""Sums of a million terms, and what stands on them, are as exact as PyTorch's."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import glasshouse as gh

COUNT = 1 << 20


def model(x: torch.Tensor) -> dict[str, torch.Tensor]:
    far = x + 1000.0  # a mean that is wrong by a ten thousandth makes noise of what follows
    columns = x.reshape(-1, 4)
    images = far.reshape(4, 16, 128, 128)
    return {
        "sum": x.sum(),
        "sum of what is computed": F.mse_loss(x, x * 0.5),
        "cross entropy": F.binary_cross_entropy_with_logits(x, x * 0.5),
        "columns": (columns * columns).sum(0),
        "middle": x.reshape(2, -1, 2).mean(1),
        "variance": far.reshape(2, -1).var(-1),
        "layer norm": F.layer_norm(far.reshape(2, -1), (COUNT // 2,)),
        "rms norm": F.rms_norm(far.reshape(2, -1), (COUNT // 2,)),
        "batch norm": F.batch_norm(images, None, None, training=True),
        "group norm": F.group_norm(images, 4),
        "logsumexp": torch.logsumexp(x.reshape(2, -1), -1),
        "softmax": x.softmax(-1),
        "cumsum": x.cumsum(0),
        "cumprod": (1.0 + (x - 0.5) * 1e-3).cumprod(0),
        "logcumsumexp": x.logcumsumexp(0),
    }


def test_long_sums_lose_no_more_than_pytorch() -> None:
    torch.manual_seed(0)
    x = torch.rand(COUNT)
    ours, eager, exact = gh.compile(model, x)(x), model(x), model(x.double())
    for name, wanted in exact.items():
        scale = wanted.abs().max()
        error, theirs = (((v[name].double() - wanted).abs().max() / scale) for v in (ours, eager))
        assert error <= 3 * theirs + 5e-7, f"{name}: {error:.1e}, PyTorch {theirs:.1e}"
