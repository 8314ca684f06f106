"""Samples of the convolutions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ops.samples.sample import Sample, values

_WHY: dict[str, Any] = {"tol": 5, "why": "sums in another order"}
_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def _bordered(x: torch.Tensor, padding: Any) -> torch.Tensor:
    """x with a padding as Glasshouse spells it: one, n or 2n numbers."""
    n = x.ndim - 2
    pads = list(padding) or [0]
    pads = pads * n if len(pads) == 1 else pads
    begins, ends = (pads[:n], pads[n:]) if len(pads) == 2 * n else (pads, pads)
    return F.pad(x, [p for i in reversed(range(n)) for p in (begins[i], ends[i])])


def _spread(given: Any, n: int) -> list[int]:
    return [1] * n if not given else list(given) * n if len(given) == 1 else list(given)


def _conv(
    x: torch.Tensor, w: torch.Tensor, stride: Any = (), padding: Any = (), dilation: Any = (),
    groups: int = 1,
) -> torch.Tensor:  # fmt: skip
    n = x.ndim - 2
    steps = {"stride": _spread(stride, n), "dilation": _spread(dilation, n)}
    return _CONV[n](_bordered(x, padding), w, groups=groups, **steps)


def _transpose(
    x: torch.Tensor, w: torch.Tensor, stride: Any = (), padding: Any = (0,), dilation: Any = (),
    groups: int = 1, output_padding: Any = 0,
) -> torch.Tensor:  # fmt: skip
    n = x.ndim - 2
    return _TRANSPOSE[n](
        x, w, stride=_spread(stride, n), padding=padding, dilation=_spread(dilation, n),
        groups=groups, output_padding=output_padding,
    )  # fmt: skip


def _weight_grad(x: torch.Tensor, g: torch.Tensor, kernel: Any, **attrs: Any) -> torch.Tensor:
    with torch.enable_grad():
        shape = (g.shape[1], x.shape[1] // attrs.get("groups", 1), *kernel)
        w = torch.zeros(shape, dtype=x.dtype, requires_grad=True)
        return torch.autograd.grad(_conv(x, w, **attrs), w, g, create_graph=True)[0]


def _of(f: Any, x: tuple[int, ...], w: tuple[int, ...], **attrs: Any) -> Sample:
    return Sample((values(*x), values(*w, seed=1)), f, attrs, **_WHY)


HOLES = {
    (name, "scalar"): "an image has batch, channels and spatial axes"
    for name in ("conv", "conv_transpose", "conv_weight_grad")
}
SAMPLES = {
    "conv": [
        _of(_conv, (2, 3, 7), (5, 3, 4)),
        _of(_conv, (2, 3, 7, 8), (6, 3, 3, 2), stride=(2, 1), padding=(1,)),
        _of(_conv, (2, 4, 9, 8), (6, 2, 3, 3), stride=(2,), padding=(1, 0, 0, 2), groups=2),
        _of(_conv, (1, 4, 9), (8, 1, 3), dilation=(2,), padding=(2,), groups=4),
        _of(_conv, (1, 2, 5, 4, 6), (3, 2, 2, 3, 2), stride=(3,), padding=(1,)),
        _of(_conv, (2, 3, 5, 5), (4, 3, 1, 1)),
        _of(_conv, (0, 3, 7), (5, 3, 4)),
    ],
    "conv_transpose": [
        _of(_transpose, (2, 3, 5), (3, 4, 2)),
        _of(_transpose, (2, 3, 4, 5), (3, 4, 3, 2), stride=(2,), padding=(1,), output_padding=(1,)),
        _of(_transpose, (1, 4, 5), (4, 3, 3), stride=(3,), padding=(2,), dilation=(2,), groups=2),
        _of(_transpose, (1, 4, 5), (4, 2, 3), dilation=(3,), output_padding=(2,)),
        _of(_transpose, (1, 2, 3, 2, 4), (2, 3, 2, 2, 3), stride=(2,)),
        _of(_transpose, (0, 3, 5), (3, 4, 2)),
    ],
    "conv_weight_grad": [
        _of(_weight_grad, (2, 3, 7), (2, 5, 4), kernel=(4,)),
        _of(_weight_grad, (2, 4, 9, 8), (2, 6, 5, 4), kernel=(3, 3), stride=(2,), padding=(1,),
            groups=2),
        _of(_weight_grad, (1, 2, 5, 4, 6), (1, 3, 4, 2, 5), kernel=(2, 3, 2)),
        _of(_weight_grad, (0, 3, 7), (0, 5, 4), kernel=(4,)),
    ],
}  # fmt: skip
