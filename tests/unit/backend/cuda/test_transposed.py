"""Transposed convolutions on GPUs as products for each phase of their steps, by the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda import transposed
from glasshouse.backend.cuda.tiles import TILES, GemmVariant
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run

# channels, filters, image, kernel, then what differs from the usual attributes
CASES: dict[str, tuple[int, int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "4x4 by 2": (8, 6, (3, 4), (4, 4), {"stride": (2, 2), "padding": (1, 1)}),
    "3x3 by 2, one more": (
        16, 8, (3, 3), (3, 3), {"stride": (2, 2), "padding": (1, 1), "output_padding": (1, 1)},
    ),
    "groups": (16, 16, (3, 3), (2, 2), {"stride": (2, 2), "groups": 2}),
    "other steps": (5, 3, (2, 5), (3, 6), {"stride": (1, 3), "padding": (1, 1, 0, 2)}),
    "single steps, gaps": (4, 5, (5, 5), (3, 3), {"dilation": (2, 1), "padding": (2, 0)}),
    "a line": (8, 8, (9,), (16,), {"stride": (8,), "padding": (4,)}),
    "steps beyond windows": (4, 4, (3, 2), (2, 1), {"stride": (3, 2), "output_padding": (1, 1)}),
    "no rows": (8, 4, (3, 3), (2, 2), {"stride": (2, 2)}),
}  # fmt: skip
USUAL = ("4x4 by 2 float16", "other steps float32", "groups float16")


def cases() -> list[Any]:
    names = [f"{name} {dtype}" for name in CASES for dtype in ("float16", "float32")]
    return [n if n in USUAL else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("name", cases())
def test_transposed_convolutions_are_products(
    name: str, constant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, dtype = name.rsplit(" ", 1)
    monkeypatch.setattr(transposed, "variants", lambda *_: [GemmVariant(TILES["mma64x32x64"])])
    channels, filters, image, kernel, attrs = CASES[words]
    random = np.random.default_rng(0)
    groups = attrs.get("groups", 1)
    shape = (0 if words == "no rows" else 2, channels, *image)
    x = random.standard_normal(shape).astype(dtype)
    w = random.standard_normal((channels, filters // groups, *kernel)).astype(dtype)
    builder = GraphBuilder()
    given = builder.input(as_dtype(dtype), x.shape)
    weights = builder.constant(w) if constant else builder.input(as_dtype(dtype), w.shape)
    rank = len(image)
    usual = {
        "stride": (1,) * rank, "padding": (0,) * rank, "dilation": (1,) * rank, "groups": 1,
        "output_padding": (0,) * rank,
    }  # fmt: skip
    made = given.apply("conv_transpose", weights, **{**usual, **attrs})
    graph = builder.finish(made.apply("relu") + 1)
    program = program_of(graph)
    assert not any(isinstance(s, Fallback) for s in program.steps)
    arrays = [x] if constant else [x, w]
    (wanted,), (ours,) = run(graph, arrays), run_emulated(program, arrays)
    within = {"float16": 4e-3, "float32": 1e-5}[dtype]
    scale = float(np.abs(wanted).max(initial=1))
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=within * scale)


def test_nothing_is_fused_into_one_without_a_kernel() -> None:
    """A fused node without a kernel would be the host's, whole."""
    builder = GraphBuilder()
    x = builder.input(as_dtype("float32"), (1, 4, 3, 3, 3))
    w = builder.constant(np.ones((4, 4, 2, 2, 2), np.float32))
    plain = {"padding": (0,) * 3, "dilation": (1,) * 3, "groups": 1, "output_padding": (0,) * 3}
    odd = builder.input(as_dtype("float32"), (1, 4, 3, 3))
    small = builder.constant(np.ones((4, 4, 3, 3), np.float32))
    flat = {n: v if isinstance(v, int) else v[:2] for n, v in plain.items()}
    made = [
        x.apply("conv_transpose", w, stride=(2, 2, 2), **plain).apply("relu"),
        odd.apply("conv_transpose", small, stride=(2, 2), **flat).apply("relu"),  # 7 is odd
    ]
    n = gh.symbol("n", 1, None)
    any_size = builder.input(as_dtype("float32"), (n, 4, 3, 3))
    how = {"mode": "linear", "coordinates": "half_pixel", "antialias": False, "scales": ()}
    made.append(any_size.apply("resize", size=(6, 6), **how).apply("relu"))
    program = program_of(builder.finish(*made), over_graph=True)
    fell = sorted(s.node.op.name for s in program.steps if isinstance(s, Fallback))
    assert fell == ["conv_transpose", "conv_transpose", "resize"]
