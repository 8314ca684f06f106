"""Samples of the normalisations."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ops.samples.sample import Sample, values

_TOL = {"tol": 5, "why": "float32 means and variances round in another order"}


def _layer(
    x: torch.Tensor, *params: torch.Tensor, axis: int = -1, eps: float = 1e-5
) -> torch.Tensor:
    return F.layer_norm(x, x.shape[axis:], *params, eps=eps)


def _rms(x: torch.Tensor, *params: torch.Tensor, axis: int = -1, eps: float = 1e-5) -> torch.Tensor:
    return F.rms_norm(x, x.shape[axis:], *params, eps=eps)


def _group(x: torch.Tensor, *params: torch.Tensor, groups: int, eps: float = 1e-5) -> torch.Tensor:
    if not x.numel():
        return x
    return F.group_norm(x, groups, *params, eps=eps)


def _batch(
    x: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor,
    eps: float = 1e-5,
) -> torch.Tensor:
    return F.batch_norm(x, m, v, w, b, False, 0.0, eps)


def _training(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-5) -> Any:
    dims = [i for i in range(x.ndim) if i != 1]
    y = F.batch_norm(x, None, None, w, b, True, 0.0, eps)
    return y, x.mean(dims), x.var(dims, correction=0)


def _params(*shape: int, count: int = 2) -> list[Any]:
    return [values(*shape, low=0.5, high=2.0, seed=i + 1) for i in range(count)]


def _stats(*shape: int) -> Sample:
    c = (shape[1],)
    return Sample((values(*shape), values(*c, seed=1), *_params(*c, count=3)), _batch, **_TOL)


def _train(*shape: int, **kw: Any) -> Sample:
    return Sample((values(*shape), *_params(shape[1])), _training, **{**_TOL, **kw})


def _layer_gradients(g: torch.Tensor, *operands: torch.Tensor, axis: int, eps: float) -> Any:
    x, *params = (t.detach().requires_grad_() for t in operands)
    if not params:
        params = [torch.ones(x.shape[axis:], dtype=x.dtype)]
    return torch.autograd.grad(_layer(x, *params, axis=axis, eps=eps), x, g)[0]


def _layer_weights(g: torch.Tensor, x: torch.Tensor, axis: int, eps: float) -> Any:
    params = [torch.ones(x.shape[axis:], dtype=x.dtype).requires_grad_() for _ in range(2)]
    return torch.autograd.grad(_layer(x, *params, axis=axis, eps=eps), params, g)


def _of_layer(torch_: Any, *shape: int, count: int = 0, axis: int = -1) -> Sample:
    operands = (values(*shape, seed=7), values(*shape), *_params(*shape[axis:], count=count))
    attrs = {"axis": axis, "eps": 1e-3}
    return Sample(operands, torch_, attrs, grad=None, **{**_TOL, "tol": 20})


SAMPLES = {
    "layer_norm_grad": [
        _of_layer(_layer_gradients, 2, 3, 8, count=1),
        _of_layer(_layer_gradients, 2, 3, 4, count=1, axis=-2),
        _of_layer(_layer_gradients, 7),
        _of_layer(_layer_gradients, 0, 4, count=1),
    ],
    "layer_norm_weight_grad": [
        _of_layer(_layer_weights, 2, 3, 8),
        _of_layer(_layer_weights, 5, 3, 4, axis=-2),
        _of_layer(_layer_weights, 7),
        _of_layer(_layer_weights, 0, 4),
    ],
    "layer_norm": [
        Sample((values(2, 3, 8), *_params(8)), _layer, **_TOL),
        Sample((values(2, 3, 4), *_params(3, 4)), _layer, {"axis": -2, "eps": 1e-3}, **_TOL),
        Sample((values(2, 6), *_params(6, count=1)), _layer, **_TOL),
        Sample((values(7),), _layer, **_TOL),
        Sample((values(2, 3, 4),), _layer, {"axis": 0}, **_TOL),
        Sample((values(0, 4), *_params(4)), _layer),
        Sample(
            (values(3, 4) * 0.01 + 50, *_params(4)),
            _layer,
            dtypes=("float64",),
            grad=None,
            tol=1e4,
            why="the sample has mean 50 and deviation 0.01: four digits cancel",
        ),
    ],
    "rms_norm": [
        Sample((values(2, 3, 8), *_params(8, count=1)), _rms, **_TOL),
        Sample((values(2, 3, 4), *_params(3, 4, count=1)), _rms, {"axis": -2, "eps": 1e-3}, **_TOL),
        Sample((values(7),), _rms, **_TOL),
        Sample((values(0, 4), *_params(4, count=1)), _rms),
    ],
    "group_norm": [
        Sample((values(2, 6, 5), *_params(6)), _group, {"groups": 3}, static=(6,), **_TOL),
        Sample(
            (values(2, 4, 3, 2), *_params(4, count=1)), _group, {"groups": 4, "eps": 1e-3}, **_TOL
        ),
        Sample((values(3, 4),), _group, {"groups": 2}, **_TOL),
        Sample((values(2, 4, 0),), _group, {"groups": 2}),
    ],
    "batch_norm": [_stats(2, 3), _stats(2, 3, 5), _stats(2, 4, 3, 2), _stats(0, 3, 2)],
    "batch_norm_training": [
        _train(4, 3),
        _train(2, 3, 5),
        _train(2, 4, 3, 2),
        Sample((values(3, 0, 2), values(0), values(0)), None, why="torch refuses an empty batch"),
    ],
}
HOLES = {
    ("layer_norm_weight_grad", "broadcast"): "both operands have one shape",
} | {
    (name, "scalar"): "its operands have channels or a last axis"
    for name in (
        "layer_norm",
        "layer_norm_grad",
        "layer_norm_weight_grad",
        "rms_norm",
        "group_norm",
        "batch_norm",
        "batch_norm_training",
    )
}
