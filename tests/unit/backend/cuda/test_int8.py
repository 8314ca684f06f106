"""Quantised products on a GPU: whole numbers on tensor cores, equal to the reference."""

from __future__ import annotations

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda.render import render
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.numpy_ref import run

STEP = 0.05


def layer(
    shape: tuple[int, ...], columns: int, dtype: str, zero: int, axis: int | None, turned: bool
) -> Graph:
    """Activations through bytes, times int8 weights, a bias and a function, and bytes again."""
    random = np.random.default_rng(0)
    builder = GraphBuilder()
    step, point = builder.constant(np.float32(STEP)), builder.constant(np.array(zero, dtype))
    x = builder.input("float32", shape)
    x = x.apply("quantize", step, point, dtype=as_dtype(dtype)).apply("dequantize", step, point)
    sizes = (columns, shape[-1]) if turned else (shape[-1], columns)
    data = builder.weight(random.integers(-128, 128, sizes).astype(np.int8), "int8")
    if axis is None:
        beside = builder.constant(np.float32(0.003)), builder.constant(np.array(0, np.int8))
        w = data.apply("dequantize", *beside)
    else:
        scales = builder.weight(random.uniform(0.001, 0.005, columns).astype("f"), "float32")
        zeros = builder.weight(np.zeros(columns, np.int8), "int8")
        w = data.apply("dequantize", scales, zeros, axis=axis)
    bias = builder.weight(random.standard_normal(columns, "f"), "float32")
    out = (x.apply("matmul", w, transpose_y=turned) + bias).apply("relu")
    return builder.finish(out, out.apply("quantize", step, point, dtype=as_dtype(dtype)))


@pytest.mark.parametrize(
    ("shape", "columns", "dtype", "zero", "axis", "turned"),
    [
        ((5, 33), 70, "uint8", 3, 1, False),  # a depth that no run of 16 divides
        ((2, 3, 64), 16, "uint8", 128, None, True),
        ((70, 160), 40, "int8", -5, 0, True),
        ((1, 4096), 8, "uint8", 255, None, False),  # deep, and far from zero
        ((130, 272), 96, "uint8", 7, 0, True),  # columns in the order of eights, depth past a box
    ],
)
def test_products_are_of_whole_numbers(
    shape: tuple[int, ...], columns: int, dtype: str, zero: int, axis: int | None, turned: bool
) -> None:
    graph = layer(shape, columns, dtype, zero, axis, turned)
    program = program_of(graph, over_graph=True)
    texts = [render(kernel).text for kernel in program.kernels]
    assert sum("gh::real_sum(" in text for text in texts) == 1
    (variant,) = (k.variant for k in program.kernels if k.tiles)
    assert variant.startswith("int8_tma" if shape[-1] % 16 == 0 else "int8_mma")
    x = np.random.default_rng(1).standard_normal(shape, "f") * 6
    x.reshape(-1)[:2] = np.inf, -np.inf  # the ends of the bytes
    real, stored = run_emulated(program, [x], fall_back=False)
    expected = run(graph, [x])
    np.testing.assert_allclose(real, expected[0], rtol=2e-5, atol=1e-4)
    apart = np.abs(stored.astype(int) - expected[1].astype(int))
    assert apart.max() <= 1, "a step where rounding was close, nothing more"
    assert (apart != 0).mean() < 0.02


def convolution(
    channels: int, filters: int, size: int, stride: int, padding: int, zero: int
) -> tuple[Graph, tuple[int, ...]]:
    random = np.random.default_rng(0)
    builder = GraphBuilder()
    shape = (2, channels, 9, 8)
    step, point = builder.constant(np.float32(STEP)), builder.constant(np.array(zero, np.uint8))
    x = builder.input("float32", shape)
    x = x.apply("quantize", step, point, dtype=as_dtype("uint8")).apply("dequantize", step, point)
    kernel = random.integers(-128, 128, (filters, channels, size, size)).astype(np.int8)
    scales = builder.weight(random.uniform(0.001, 0.005, filters).astype("f"), "float32")
    zeros = builder.weight(np.zeros(filters, np.int8), "int8")
    w = builder.weight(kernel, "int8").apply("dequantize", scales, zeros, axis=0)
    out = x.apply(
        "conv", w, stride=(stride,) * 2, padding=(padding,) * 4, dilation=(1, 1), groups=1
    )
    bias = builder.weight(random.standard_normal((filters, 1, 1), "f"), "float32")
    return builder.finish((out + bias).apply("relu")), shape


@pytest.mark.parametrize(
    ("sizes", "whole"),
    [
        ((16, 40, 3, 1, 1, 0), True),
        ((32, 16, 1, 2, 0, 7), True),  # no border, so any zero point
        ((3, 24, 3, 2, 1, 0), True),
        ((16, 24, 3, 1, 1, 7), False),  # a border of 7, which the kernel does not have
    ],
)
def test_convolutions_are_of_whole_numbers(sizes: tuple[int, ...], whole: bool) -> None:
    graph, shape = convolution(*sizes)  # type: ignore[call-arg, arg-type]  # six
    program = program_of(graph, over_graph=True)
    assert any("gh::real_sum(" in render(k).text for k in program.kernels) == whole
    x = np.random.default_rng(1).standard_normal(shape, "f") * 4
    (ours,) = run_emulated(program, [x], fall_back=False)
    np.testing.assert_allclose(ours, run(graph, [x])[0], rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("scale", [0.05, 1.0, 1e-40, 3e38])
def test_bytes_are_those_of_the_reference(dtype: str, scale: float) -> None:
    """Halves, what saturates, infinities, NaN, denormals; scales past what a reciprocal holds."""
    builder = GraphBuilder()
    x = builder.input("float32", (4096,))
    step, point = builder.constant(np.float32(scale)), builder.constant(np.array(7, dtype))
    stored = x.apply("quantize", step, point, dtype=as_dtype(dtype))
    limited = x.apply("quantize", step, point, dtype=as_dtype(dtype), low=9, high=100)
    graph = builder.finish(stored, limited, stored.apply("dequantize", step, point))
    random = np.random.default_rng(0)
    given = (random.integers(-600, 600, 4096) / 2).astype(np.float64) * scale
    given[2000:3000] += random.standard_normal(1000) * scale
    odd = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, 3e38, -3e38]
    given[: len(odd)] = odd
    with np.errstate(over="ignore"):
        values = given.astype(np.float32)
    program = program_of(graph, over_graph=True)
    for ours, wanted in zip(
        run_emulated(program, [values], fall_back=False), run(graph, [values]), strict=True
    ):
        np.testing.assert_array_equal(ours, wanted)


def test_transposed_convolutions_are_right() -> None:
    """They have no kernel of bytes here: operands are widened first."""
    random = np.random.default_rng(0)
    builder = GraphBuilder()
    step, point = builder.constant(np.float32(STEP)), builder.constant(np.array(7, np.uint8))
    x = builder.input("float32", (2, 16, 5, 4))
    x = x.apply("quantize", step, point, dtype=as_dtype("uint8")).apply("dequantize", step, point)
    data = builder.weight(random.integers(-128, 128, (16, 8, 2, 2)).astype(np.int8), "int8")
    scales = builder.weight(random.uniform(0.001, 0.005, 8).astype("f"), "float32")
    w = data.apply("dequantize", scales, builder.weight(np.zeros(8, np.int8), "int8"), axis=1)
    graph = builder.finish(x.apply("conv_transpose", w, stride=(2, 2)))
    given = random.standard_normal((2, 16, 5, 4), "f")
    (made,) = run_emulated(program_of(graph, over_graph=True), [given], fall_back=False)
    np.testing.assert_allclose(made, run(graph, [given])[0], rtol=2e-5, atol=1e-4)
