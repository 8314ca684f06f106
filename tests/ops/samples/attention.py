"""Samples of attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ops.samples.sample import Array, Sample, bools, values


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None,
    causal: bool = False, scale: float | None = None,
) -> torch.Tensor:  # fmt: skip
    if causal and mask is not None:  # torch takes one of them
        below = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        mask = mask & below if mask.dtype == torch.bool else mask.masked_fill(~below, -torch.inf)
        causal = False
    shared = q.ndim > 2 and q.shape[-3] != k.shape[-3]
    return F.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=shared
    )


def _of(
    q: tuple[int, ...], k: tuple[int, ...], dim: int, *mask: Array, static: Any = (5,), **attrs: Any
) -> Sample:
    operands = (values(*q), values(*k, seed=1), values(*k[:-1], dim, seed=2))
    return Sample(
        (*operands, *mask),
        _attention,
        attrs,
        static=static,  # the width decides the scale; one count of heads divides the other
        tol=5,
        why="exp and sums round in another way",
    )


_HOLED = bools(4, 6, seed=3)
_HOLED[1] = False  # a row that sees no key
_Q, _K = (2, 3, 4, 5), (2, 3, 6, 5)
HOLES = {
    ("attention", "scalar"): "q, k and v have a length and a width",
    ("attention_grad", "scalar"): "its operands have a length and a width",
}


def _gradients(
    g: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, y: torch.Tensor,
    mask: torch.Tensor | None = None, **attrs: Any,
) -> torch.Tensor:  # fmt: skip
    """PyTorch's own, which computes `y` again, beside each other."""
    of = [x.detach().requires_grad_() for x in (q, k, v)]
    made = torch.autograd.grad(_attention(*of, mask, **attrs), of, g)
    return torch.stack(made).permute(1, 3, 0, 2, 4)


def _gradients_of(shape: tuple[int, ...], *mask: Array, **attrs: Any) -> Sample:
    g, q, k, v = (values(*shape, seed=seed) for seed in range(4))
    given = [torch.from_numpy(m) for m in mask]
    y = _attention(*map(torch.from_numpy, (q, k, v)), *given, **attrs).numpy()
    return Sample(
        (g, q, k, v, y, *mask), _gradients, attrs, grad=None, static=(5,), tol=20,
        why="exp and sums round in another way, and y is rounded where PyTorch's is not",
    )  # fmt: skip


SAMPLES = {
    "attention": [
        _of(_Q, _K, 2),
        _of(_Q, _K, 2, causal=True),
        _of(_Q, _K, 5, scale=0.3, static=()),
        _of(_Q, _K, 2, _HOLED),
        _of(_Q, _K, 2, bools(2, 1, 1, 6), causal=True),
        _of(_Q, _K, 2, values(3, 4, 6, seed=4)),
        _of(_Q, _K, 2, values(1, 3, 1, 6, seed=4), causal=True),
        _of((2, 6, 4, 5), (2, 3, 4, 5), 7, causal=True, static=(5, 3, 6)),
        _of((6, 4, 5), (1, 4, 5), 5, values(6, 4, 4, seed=4)),
        _of((8, 4, 5), (2, 7, 5), 3, bools(4, 7), static=(5, 2, 8)),
        _of((4, 5), (6, 5), 3),
        _of((0, 2, 4, 5), (0, 2, 6, 5), 3),
        Sample(
            (values(1, 2, 3), values(1, 4, 3), values(1, 4, 2),
             np.array([[0.0, -np.inf, 1.0, 0.5], [-np.inf] * 4])),
            _attention, grad=None, static=(3,), tol=5, why="exp and sums round in another way",
        ),
    ],
    "attention_grad": [
        _gradients_of((2, 3, 4, 5)),
        _gradients_of((2, 3, 4, 5), causal=True, scale=0.3),
        _gradients_of((1, 2, 4, 5), values(1, 2, 4, 4, seed=9)),
        _gradients_of((1, 2, 4, 5), bools(4, 4, seed=3) | np.eye(4, dtype=bool)),
        _gradients_of((0, 2, 4, 5)),
    ],
}  # fmt: skip
