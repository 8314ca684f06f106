"""Places of extremes on GPUs, by the emulator: ties, NaN, lines beside each other and alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.ir import GraphBuilder, op_named
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run

SHAPES = [
    ((2, 1100), 1), ((3, 70, 40), 1), ((700, 3), 0), ((300, 9), 0), ((5, 1), 1), ((1,), 0),
    ((0, 9), 1),
]  # fmt: skip


def awkward(shape: tuple[int, ...], dtype: Any) -> Any:
    random = np.random.default_rng(sum(shape))
    x = random.integers(-9, 9, shape).astype(dtype)
    if np.dtype(dtype).kind == "f" and x.size > 20:
        odd = [np.nan] * 3 + [np.inf, -np.inf] * 2 + [0.0, -0.0]
        x.reshape(-1)[random.permutation(x.size)[:9]] = odd
    return x


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int64, np.int8])
def test_the_first_of_equal_ones_and_nan(dtype: Any) -> None:
    builder = GraphBuilder()
    arrays = [awkward(shape, dtype) for shape, _ in SHAPES]
    inputs = [builder.input(as_dtype(str(x.dtype)), x.shape) for x in arrays]
    values = [
        builder.apply(op_named(op), x, axis=axis)
        for op in ("argmax", "argmin")
        for x, (_, axis) in zip(inputs, SHAPES, strict=True)
    ]
    graph = builder.finish(*values)
    program = program_of(graph)
    assert not any(isinstance(s, Fallback) for s in program.steps)
    ours = run_emulated(program, arrays, fall_back=False)
    for found, expected in zip(ours, run(graph, arrays), strict=True):
        np.testing.assert_array_equal(found, expected)
