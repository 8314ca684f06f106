"""Rows that are kept in registers over several passes, run by the emulator."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda.render import render
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import DType, float16, float32
from glasshouse.numpy_ref import run


def norm(rows: int, extent: int, dtype: DType) -> Graph:
    """A layer norm and a softmax over the same rows; the scale is a constant."""
    builder = GraphBuilder()
    x = builder.input(dtype, (rows, extent))
    scale = builder.wrap(builder.constant(np.linspace(-1, 1, extent), dtype))
    wide = x.cast(float32)
    centred = wide - wide.apply("mean", axes=[1], keepdims=True)
    variance = (centred * centred).apply("mean", axes=[1], keepdims=True)
    normal = centred * (variance + 1e-5).apply("rsqrt")
    return builder.finish(normal.cast(dtype) * scale, x.apply("softmax"))


@pytest.mark.parametrize(
    ("rows", "extent", "dtype", "size"),
    [
        (5, 768, float16, 32),  # three whole turns of a warp
        (3, 200, float16, 32),  # a turn that some lanes sit out
        (2, 1000, float16, 128),  # few long rows: by some warps
        (1056, 776, float16, 32),  # many of them: by one
        (300, 64, float16, 32),  # several rows a block, the last block less
        (1, 2048, float16, 256),  # by a block
        (2, 1536, float32, 256),
    ],
)
def test_rows_are_read_once(rows: int, extent: int, dtype: DType, size: int) -> None:
    program = program_of(norm(rows, extent, dtype), over_graph=True)
    texts = [render(kernel).text for kernel in program.kernels]
    held = [text for text in texts if "held0_" in text]
    assert len(held) == 2
    for text in held:
        assert text.count("_vec<") == text.count("] = gh::load_vec<"), "loads fill registers alone"
        assert f"* {size} + lane_" in text
        before, after = text.split("gh::wait_for_earlier(ctx);")
        reads = re.findall(r"load_vec<\d+>\((\w+)", before)
        assert set(reads) <= {"x1"}, "constants alone are read before earlier kernels have ended"
        assert "load_vec<" in after
    random = np.random.default_rng(0)
    x = (random.standard_normal((rows, extent)) * 3 + 1).astype(dtype.storage)
    if rows > 1:
        x[1, extent // 2] = np.nan
        x[-1, 1] = np.inf if rows > 2 else x[-1, 1]
    for ours, theirs in zip(
        run_emulated(program, [x], fall_back=False), run(program.graph, [x]), strict=True
    ):
        within = 4e-3 if dtype is float16 else 1e-5
        np.testing.assert_allclose(ours, theirs, rtol=within, atol=within)


def test_longer_rows_are_read_for_each_pass() -> None:
    program = program_of(norm(2, 65536, float16), over_graph=True)
    assert not any("held0_" in render(kernel).text for kernel in program.kernels)
