"""Samples of pooling."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ops.samples.sample import Sample, distinct, values

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_ADAPTIVE = {
    ("avg", 1): F.adaptive_avg_pool1d, ("avg", 2): F.adaptive_avg_pool2d,
    ("avg", 3): F.adaptive_avg_pool3d, ("max", 1): F.adaptive_max_pool1d,
    ("max", 2): F.adaptive_max_pool2d, ("max", 3): F.adaptive_max_pool3d,
}  # fmt: skip


def _max(
    x: torch.Tensor, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
    ceil_mode: bool = False, indices: bool = False,
) -> torch.Tensor:  # fmt: skip
    if not x.numel():  # torch refuses an empty batch in some of these
        return _max(
            x.new_zeros(1, *x.shape[1:]), kernel, stride, padding, dilation, ceil_mode, indices
        )[:0]
    f = _MAX[x.ndim - 2]
    out = f(x, kernel, stride or None, padding, dilation, ceil_mode, return_indices=indices)
    return out[1] if indices else out


def _indices(x: torch.Tensor, **attrs: Any) -> torch.Tensor:
    return _max(x, indices=True, **attrs)


def _max_grad(g: torch.Tensor, x: torch.Tensor, **attrs: Any) -> torch.Tensor:
    if not x.numel():
        return x
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(
            _max(leaf, **attrs),
            leaf,
            g,
            allow_unused=True,
            materialize_grads=True,
            create_graph=g.requires_grad,
        )[0]


def _avg(
    x: torch.Tensor, kernel: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> torch.Tensor:  # fmt: skip
    f = _AVG[x.ndim - 2]
    return f(x, kernel, stride or None, padding, ceil_mode, count_include_pad)


def _avg_grad(g: torch.Tensor, size: Any, **attrs: Any) -> torch.Tensor:
    with torch.enable_grad():
        leaf = g.new_zeros(*g.shape[:2], *size).requires_grad_()
        return torch.autograd.grad(_avg(leaf, **attrs), leaf, g, create_graph=True)[0]


def _adaptive(kind: str, indices: bool = False) -> Any:
    def pooled(x: torch.Tensor, size: Any) -> Any:
        if not x.numel():
            return x.new_zeros(*x.shape[:2], *size, dtype=torch.int64 if indices else None)
        f = _ADAPTIVE[kind, x.ndim - 2]
        return f(x, size, return_indices=True)[1] if indices else f(x, size)

    return pooled


_WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 8), {"kernel": (2,)}),
    ((1, 2, 9, 8), {"kernel": (3, 3), "stride": (2,), "padding": (1,)}),
    ((1, 2, 7, 6), {"kernel": (3, 2), "stride": (2, 3), "padding": (1, 0), "ceil_mode": True}),
    ((1, 2, 5), {"kernel": (2,), "stride": (2,), "padding": (1,), "ceil_mode": True}),
    ((1, 1, 4, 5, 6), {"kernel": (2, 2, 3), "stride": (2, 1, 2)}),
    ((0, 2, 4), {"kernel": (2,)}),
]
_DILATED = ((1, 2, 9, 10), {"kernel": (3, 2), "stride": (1, 2), "padding": (1,), "dilation": (2,)})
_SIZES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3, 8), (3,)), ((1, 2, 6, 7), (3, 4)), ((1, 2, 5, 4), (1, 6)), ((1, 2, 4, 3, 5), (2, 3, 2)),
    ((0, 2, 6), (4,)),
]  # fmt: skip


def _out(shape: tuple[int, ...], attrs: dict[str, Any]) -> tuple[int, ...]:
    window = {k: v for k, v in attrs.items() if k != "count_include_pad"}
    return tuple(_max(torch.zeros(max(shape[0], 1), *shape[1:]), **window).shape[2:])


def _grads(f: Any, windows: Any, second: bool) -> list[Sample]:
    out = []
    for shape, attrs in windows:
        g = values(*shape[:2], *_out(shape, attrs), seed=1)
        inputs, more = ((g, distinct(*shape)), {}) if second else ((g,), {"size": shape[2:]})
        out.append(Sample(inputs, f, {**attrs, **more}))
    return out


_SCALAR = "an image has batch, channels and spatial axes"
_INDICES = ("max_pool_indices", "adaptive_max_pool_indices")
HOLES = {
    (name, "scalar"): _SCALAR
    for name in (
        "max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad", "adaptive_avg_pool",
        "adaptive_max_pool", *_INDICES,
    )
}  # fmt: skip
SAMPLES = {
    "max_pool": [Sample((distinct(*s),), _max, a) for s, a in [*_WINDOWS, _DILATED]],
    "max_pool_indices": [Sample((distinct(*s),), _indices, a) for s, a in [*_WINDOWS, _DILATED]],
    "max_pool_grad": _grads(_max_grad, [*_WINDOWS, _DILATED], second=True),
    "avg_pool": [
        *[Sample((values(*s),), _avg, a) for s, a in _WINDOWS],
        *[Sample((values(*s),), _avg, {**a, "count_include_pad": False}) for s, a in _WINDOWS[1:4]],
    ],
    "avg_pool_grad": [
        *_grads(_avg_grad, _WINDOWS, second=False),
        *_grads(
            _avg_grad, [(s, {**a, "count_include_pad": False}) for s, a in _WINDOWS[1:4]], False
        ),
    ],
    "adaptive_avg_pool": [Sample((values(*x),), _adaptive("avg"), {"size": s}) for x, s in _SIZES],
    "adaptive_max_pool": [
        Sample((distinct(*x),), _adaptive("max"), {"size": s}) for x, s in _SIZES
    ],
    "adaptive_max_pool_indices": [
        Sample((distinct(*x),), _adaptive("max", True), {"size": s}) for x, s in _SIZES
    ],
}
