"""Gradients of pools and of resizing on GPUs gather from the windows and results over an element,
by the emulator."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run

Array = np.ndarray[Any, Any]


Case = tuple[str, tuple[Array, ...], dict[str, Any]]


def results(cases: list[Case]) -> list[tuple[Array, Array]]:
    """What the emulated kernels of ops give, channels last, each with another op behind it in the
    same kernel, and what the reference says."""
    builder = GraphBuilder()
    outputs, given = [], []
    for op, arrays, attrs in cases:
        inputs = [builder.input(as_dtype(a.dtype.name), a.shape) for a in arrays]
        given += arrays
        made = inputs[0].apply(op, *inputs[1:], **attrs) * 2
        last = [0, *range(2, made.ndim), 1]
        outputs.append(made.apply("permute", axes=last))
    program = program_of(builder.finish(*outputs), over_graph=True)
    assert not any(isinstance(s, Fallback) for s in program.steps)
    assert len(program.steps) <= len(cases), "what follows is another kernel"
    return list(zip(run_emulated(program, given), run(program.graph, given), strict=True))


def noise(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def pooled(attrs: dict[str, Any], *shape: int) -> tuple[int, ...]:
    return tuple(GraphBuilder().input("float32", shape).apply("max_pool", **attrs).shape)


def test_a_maximum_hands_its_gradient_to_the_first_of_equals() -> None:
    windows: list[dict[str, Any]] = [
        {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)},
        {"kernel": (2, 2)},
        {"kernel": (2, 3), "stride": (1, 2), "padding": (0, 1), "dilation": (2, 1)},
        {"kernel": (2, 2), "stride": (3, 3)},
        {"kernel": (16, 16), "stride": (5, 4)},  # more taps than bytes can number
    ]
    x = np.random.default_rng(0).integers(-2, 3, (2, 8, 21, 20)).astype("f")
    x[0, 3, 4, 4] = x[0, 3, 5, 5] = np.nan
    x[1, 4] = -np.inf
    cases: list[Case] = [
        ("max_pool_grad", (noise(*pooled(attrs, *x.shape)), x), attrs) for attrs in windows
    ]
    for ours, wanted in results(cases):
        np.testing.assert_allclose(ours, wanted, rtol=1e-6, atol=1e-6)


def test_infinite_gradients_stay_with_their_windows() -> None:
    cases: list[Case] = []
    window = {"kernel": (3, 3), "stride": (2, 2)}
    for dtype in ("float16", "float32"):
        g, x = noise(1, 8, 4, 4, dtype=dtype), noise(1, 8, 9, 9, dtype=dtype)
        g[0, 2, 1, 1], g[0, 3, 2, 2], g[0, 4, 3, 0] = np.inf, np.nan, -0.0
        cases += [("max_pool_grad", (g, x), window)]
        cases += [("avg_pool_grad", (g,), {"size": (9, 9), **window})]
    for ours, wanted in results(cases):
        assert (np.isnan(ours) == np.isnan(wanted)).all()
        assert (np.isinf(ours) == np.isinf(wanted)).all()
        np.testing.assert_allclose(ours, wanted, rtol=2e-3 if ours.dtype == np.float16 else 1e-6)


SIZES = [
    (5, 37, 0), (37, 5, 0), (6, 6, 0), (1, 7, 0), (7, 1, 0), (9, 18, 0), (10, 4, 0.35),
    (4, 15, 3.9), (3, 9, 4.5), (16, 4, 0),
]  # fmt: skip
"""Lengths before and after that grow, shrink, stay, are 1; scales that are not their ratio."""


# With cubic filters the outermost element may have no part in one result, and one in the next.
@pytest.mark.parametrize(
    "mode", [pytest.param("nearest", marks=pytest.mark.slow), "linear", "cubic"]
)
def test_resizing_backwards_gathers_every_tap(mode: str) -> None:
    cases: list[Case] = []
    for coordinates in ("half_pixel", "align_corners", "asymmetric"):
        wide = mode != "nearest" and coordinates != "asymmetric"
        for (length, count, scale), antialias in product(SIZES, (False, True)[: 1 + wide]):
            how: dict[str, Any] = {"scales": (scale,)} if scale else {}
            how |= {"mode": mode, "coordinates": coordinates, "antialias": antialias}
            cases.append(("resize_grad", (noise(2, 8, count),), {"size": (length,), **how}))
    for (_, (g,), how), (ours, wanted) in zip(cases, results(cases), strict=True):
        said = f"{g.shape} {how}"
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5, err_msg=said)
