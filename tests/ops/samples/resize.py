"""Samples of resizing."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ops.samples.sample import Sample, values

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _resize(
    x: torch.Tensor, size: Any, mode: str = "nearest", coordinates: str = "half_pixel",
    scales: Any = (), antialias: bool = False,
) -> torch.Tensor:  # fmt: skip
    n = x.ndim - 2
    if not x.numel():
        return x.new_zeros(*x.shape[:2], *size)
    if coordinates == "asymmetric":
        name = "nearest"
    elif mode == "nearest":
        name = "nearest-exact"
    else:
        name = "bicubic" if mode == "cubic" else _LINEAR[n]
    aligned = coordinates == "align_corners" if mode != "nearest" else None
    how: dict[str, Any] = {"scale_factor": list(scales)} if scales else {"size": list(size)}
    return F.interpolate(x, mode=name, align_corners=aligned, antialias=antialias, **how)


def _grad(g: torch.Tensor, size: Any, **attrs: Any) -> torch.Tensor:
    if not g.numel():
        return g.new_zeros(*g.shape[:2], *size)
    with torch.enable_grad():
        leaf = g.new_zeros(*g.shape[:2], *size).requires_grad_()
        y = _resize(leaf, size=g.shape[2:], **attrs)
        return torch.autograd.grad(
            y, leaf, g, create_graph=True, allow_unused=True, materialize_grads=True
        )[0]


_ASYMMETRIC = {"coordinates": "asymmetric"}
_ALIGNED = {"coordinates": "align_corners"}
_CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 5), (8,), _ASYMMETRIC),
    ((1, 2, 5, 4), (10, 8), _ASYMMETRIC),
    ((1, 2, 5, 4), (3, 7), {}),
    ((2, 3, 5), (8,), {"mode": "linear"}),
    ((1, 2, 5, 4), (3, 7), {"mode": "linear"}),
    ((1, 2, 5, 4), (9, 1), {"mode": "linear", **_ALIGNED}),
    ((1, 2, 2, 3, 4), (4, 2, 5), {"mode": "linear"}),
    ((1, 2, 5, 4), (8, 6), {"mode": "cubic"}),
    ((1, 2, 5, 4), (3, 9), {"mode": "cubic", **_ALIGNED}),
    ((1, 2, 5, 7), (7, 10), {"mode": "linear", "scales": (1.5, 1.5)}),
    ((0, 2, 5), (3,), {}),
    ((1, 2, 13, 9), (4, 5), {"mode": "linear", "antialias": True}),
    ((1, 3, 9, 12), (9, 3), {"mode": "cubic", "antialias": True}),
    ((2, 1, 5, 4), (8, 2), {"mode": "cubic", "antialias": True, **_ALIGNED}),
]
HOLES = {
    (name, "scalar"): "an image has batch, channels and spatial axes"
    for name in ("resize", "resize_grad")
}
_WHY: dict[str, Any] = {
    "tol": 8, "why": "torch computes the places between elements in float32, in another order",
}  # fmt: skip
SAMPLES = {
    "resize": [Sample((values(*x),), _resize, {"size": s, **a}, **_WHY) for x, s, a in _CASES],
    "resize_grad": [
        Sample((values(*x[:2], *s),), _grad, {"size": x[2:], **a}, **_WHY) for x, s, a in _CASES
    ],
}
