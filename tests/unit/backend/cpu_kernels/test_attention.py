"""Fused attention against its float64 definition.

Masks, causality, shared key heads, long keys, NaN.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

Loader = Callable[[str], ctypes.CDLL]


def p(a: np.ndarray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if a is None else a.ctypes.data)


def reference(q, k, v, mask, causal: bool, align_end: bool, scale: float) -> np.ndarray:
    share = q.shape[2] // k.shape[2]
    q, k, v = (np.moveaxis(a.astype(np.float64), 2, 1) for a in (q, k, v))
    k, v = (np.repeat(a, share, 1) for a in (k, v))
    scores = scale * q @ k.swapaxes(-1, -2)
    if mask is not None:
        scores = scores + mask[:, None].astype(np.float64)
    if causal:
        lengths = scores.shape[-2:]
        shift = lengths[1] - lengths[0] if align_end else 0
        seen = np.arange(lengths[1])[None] <= np.arange(lengths[0])[:, None] + shift
        scores = np.where(seen, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        w = np.exp(scores - scores.max(-1, keepdims=True))
        return np.moveaxis((w / w.sum(-1, keepdims=True)) @ v, 1, 2)


def run(
    lib, kind: str, q, k, v, mask, causal=False, align_end=False, threads: int = 2
) -> np.ndarray:
    b, ql, h, d = q.shape
    kl, kh, dv = v.shape[1:]
    dims = (ctypes.c_long * 9)(b, h, kh, ql, kl, d, dv, causal, align_end)
    out = np.full((b, ql, h, dv), 7.5, np.float32)
    handle = ctypes.c_void_p(lib.pool_new(threads))
    getattr(lib, f"attend_{kind}")(
        handle, dims, ctypes.c_float(d**-0.5), p(q), p(k), p(v), p(mask), p(out)
    )
    lib.pool_free(handle)
    return out


def make(rng, b: int, h: int, kh: int, ql: int, kl: int, d: int, dv: int) -> list[np.ndarray]:
    shapes = [(b, ql, h, d), (b, kl, kh, d), (b, kl, kh, dv)]
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


@pytest.mark.parametrize("kind, bound", [("f32", 2e-6), ("bf16", 1.5e-2)])
@pytest.mark.parametrize(
    "sizes, causal, masked",
    [
        ((1, 3, 3, 20, 20, 16, 16), False, True),
        ((2, 4, 2, 37, 53, 41, 24), False, True),
        ((1, 2, 1, 15, 15, 8, 16), True, False),
        ((1, 2, 2, 1, 77, 64, 33), False, True),
        ((1, 1, 1, 70, 2100, 12, 20), False, False),
        ((1, 1, 1, 1500, 1500, 8, 8), True, False),
    ],
)
def test_attention(load: Loader, kind: str, bound: float, sizes, causal: bool, masked: bool,
                   rng: np.random.Generator) -> None:  # fmt: skip
    q, k, v = make(rng, *sizes)
    b, _, _, ql, kl = sizes[:5]
    mask = (3 * rng.standard_normal((b, ql, kl))).astype(np.float32) if masked else None
    want = reference(q, k, v, mask, causal, False, sizes[5] ** -0.5)
    for threads in (1, 3):
        got = run(load("rows"), kind, q, k, v, mask, causal, threads=threads)
        assert np.abs(got - want).max() <= bound * np.abs(want).max()


def test_causal_aligned_to_the_end_sees_the_cache(load: Loader, rng: np.random.Generator) -> None:
    q, k, v = make(rng, 1, 2, 2, 5, 40, 16, 16)
    want = reference(q, k, v, None, True, True, 0.25)
    got = run(load("rows"), "f32", q, k, v, None, True, True)
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_masking_with_infinity(load: Loader, rng: np.random.Generator) -> None:
    q, k, v = make(rng, 1, 1, 1, 4, 1200, 8, 8)
    mask = np.zeros((1, 4, 1200), np.float32)
    mask[0, 0, :1100] = -np.inf  # the first block of keys is masked whole
    mask[0, 1, 3:] = -np.inf
    mask[0, 2] = -np.inf  # nothing is left: 0, as torch says
    got = run(load("rows"), "f32", q, k, v, mask)
    want = reference(q, k, v, mask, False, False, 8**-0.5)
    assert (got[0, 2] == 0).all()
    np.testing.assert_allclose(got[0, [0, 1, 3]], want[0, [0, 1, 3]], atol=1e-6)
