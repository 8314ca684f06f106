"""Quantised products and convolutions: whole numbers inside, the reference but for one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glasshouse.backend.cpu.processor import has_tiles
from glasshouse.ir import Expr, Graph, GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph

STEP = 0.05
Array = np.ndarray[Any, Any]


class Maker:
    """Builds quantised layers, several in one graph: a program compiles as fast as its slowest."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder()
        self.inputs: list[Array] = []
        self.outputs: list[Expr] = []

    def activations(
        self, shape: tuple[int, ...], dtype: str, zero: int, step: float = STEP
    ) -> Expr:
        """An input that passes through bytes."""
        self.inputs.append(self.rng.standard_normal(shape, "f"))
        return self.through_bytes(self.builder.input("float32", shape), dtype, zero, step)

    def through_bytes(self, x: Expr, dtype: str, zero: int, step: float = STEP) -> Expr:
        scale, point = self.builder.constant(np.float32(step)), self.zero(dtype, zero)
        stored = x.apply("quantize", scale, point, dtype=as_dtype(dtype))
        return stored.apply("dequantize", scale, point)

    def zero(self, dtype: str, zero: int) -> Expr:
        return self.builder.constant(np.array(zero, dtype))

    def weights(self, shape: tuple[int, ...], axis: int | None, zero: int = 0) -> Expr:
        b = self.builder
        data = b.weight(self.rng.integers(-127, 128, shape).astype(np.int8), "int8")
        if axis is None:
            return data.apply("dequantize", b.constant(np.float32(0.003)), self.zero("int8", zero))
        count = shape[axis]
        scale = b.weight(self.rng.uniform(0.001, 0.005, count).astype("f"), "float32")
        zeros = b.weight(np.full(count, zero, np.int8), "int8")
        return data.apply("dequantize", scale, zeros, axis=axis)

    def bias(self, *shape: int) -> Expr:
        return self.builder.weight(self.rng.standard_normal(shape, "f"), "float32")

    def finish(self) -> Graph:
        return self.builder.finish(*self.outputs)


def check(m: Maker, steps: int = 1) -> list[str]:
    """Compare with the reference; gives the texts of the kernels."""
    graph = m.finish()
    module = compile_graph(optimize(graph))
    outputs = module(*m.inputs)
    many = outputs if isinstance(outputs, tuple) else (outputs,)
    for ours, theirs in zip(many, run(graph, m.inputs), strict=True):
        assert np.abs(ours.astype(np.float64) - theirs).max() <= steps * STEP * 1.001
        assert (ours != theirs).mean() < 0.02  # a step where rounding was close, nothing more
    return list(module.source.kernels.values())


WHOLE = (
    "gh::TilesI8", "gh::depthwise_bytes", "gh::conv2d_winograd_bytes", "gh::conv_spread_bytes",
    "gh::i8_conv(", "gh::i8_conv_groups",
)  # fmt: skip


def whole(texts: list[str]) -> int:
    return sum(any(name in text for name in WHOLE) for text in texts)


def test_products() -> None:
    m = Maker(0)
    for shape, columns, dtype, zero, axis in (
        ((5, 33), 70, "uint8", 3, 1),
        ((2, 3, 64), 16, "uint8", 128, None),
        ((17, 40), 35, "int8", -5, 1),
        ((1, 130), 97, "int8", 0, None),
    ):
        x = m.activations(shape, dtype, zero)
        y = x.apply("matmul", m.weights((shape[-1], columns), axis)) + m.bias(columns)
        hidden = m.through_bytes(y.apply("relu"), dtype, zero)
        z = hidden.apply("matmul", m.weights((24, columns), axis and 0), transpose_y=True)
        m.outputs.append(m.through_bytes(z.apply("gelu"), "int8", 1))
    assert whole(check(m)) == 8


def test_convolutions() -> None:
    m = Maker(1)
    for channels, filters, window, attrs, dtype, zero, axis in (
        (3, 16, (3, 3), {"padding": (1, 1, 1, 1)}, "uint8", 9, 0),
        (8, 20, (3, 3), {"stride": (2, 2), "padding": (1, 0, 0, 1)}, "int8", -4, 0),
        (16, 33, (1, 1), {}, "uint8", 0, None),
        (5, 7, (2, 3), {"dilation": (2, 1)}, "int8", 0, 0),
    ):
        x = m.activations((2, channels, 9, 17), dtype, zero)
        y = x.apply("conv", m.weights((filters, channels, *window), axis), **attrs)
        m.outputs.append(m.through_bytes((y + m.bias(filters, 1, 1)).apply("relu"), dtype, zero))
    assert whole(check(m)) == 4


def test_transposed_convolutions() -> None:
    """Windows as large as their strides are one product; others are computed in floats."""
    m = Maker(12)
    for size, channels, filters, window, stride, dtype, zero, axis in (
        ((9, 17), 24, 32, (2, 2), (2, 2), "uint8", 9, 1),
        ((5, 3), 7, 20, (3, 2), (3, 2), "int8", -4, 1),  # channels that no vector divides
        ((11,), 33, 16, (4,), (4,), "uint8", 255, None),
        ((2, 3, 4), 8, 5, (2, 1, 3), (2, 1, 3), "uint8", 0, 1),
        ((1, 1), 12, 16, (3, 3), (1, 1), "int8", 5, 1),  # a single window
        ((6, 6), 8, 16, (3, 3), (2, 2), "uint8", 3, 1),  # taps meet
    ):
        x = m.activations((2, channels, *size), dtype, zero)
        w = m.weights((channels, filters, *window), axis)
        y = x.apply("conv_transpose", w, stride=stride) + m.bias(filters, *[1] * len(size))
        m.outputs.append(m.through_bytes(y, dtype, zero))
    assert whole(check(m)) == 5


def test_what_is_joined_is_stored_as_bytes() -> None:
    m = Maker(13)
    x = m.activations((1, 16, 9, 17), "uint8", 3)
    y = x.apply("conv", m.weights((16, 16, 1, 1), 0)) + m.bias(16, 1, 1)
    joined = m.through_bytes(y, "uint8", 7, 0.0371).apply("concat", x, axis=1)
    m.outputs.append(m.through_bytes(joined, "uint8", 9, 0.0427))
    assert sum("float* y0" in text for text in check(m)) == 1  # the result


def test_many_tiles_share_transformed_weights() -> None:
    m = Maker(11)
    for dtype, zero, size in (("uint8", 9, 25), ("int8", -4, 25), ("uint8", 0, 11)):
        x = m.activations((1, 36, size, 16), dtype, zero)
        y = x.apply("conv", m.weights((40, 36, 3, 3), 0), padding=(1, 1, 1, 1)) + m.bias(40, 1, 1)
        m.outputs.append(m.through_bytes(y.apply("relu"), dtype, zero))
    texts = check(m)
    assert whole(texts) == 3
    transformed = sum("gh::conv2d_winograd_bytes" in text for text in texts)
    assert transformed == (0 if has_tiles() else 2), "11 x 16 results are too few"


@pytest.mark.slow
def test_convolutions_in_groups() -> None:
    m = Maker(4)
    for channels, filters, groups, window, attrs, dtype, zero, axis in (
        (37, 37, 37, (3, 3), {"padding": (1, 1, 1, 1)}, "uint8", 131, 0),
        (16, 16, 16, (3, 3), {"stride": (2, 2), "padding": (1, 0, 0, 1)}, "int8", -7, None),
        (8, 8, 8, (2, 5), {"dilation": (3, 2), "padding": (0, 5, 2, 4)}, "uint8", 3, 0),
        (12, 8, 4, (3, 3), {"padding": (1, 1, 1, 1)}, "uint8", 9, 0),
        (6, 12, 6, (1, 2), {}, "int8", 5, None),
        # Lanes of several groups: quads of channels, one or two to a group.
        (32, 32, 8, (3, 3), {"padding": (1, 1, 1, 1)}, "uint8", 9, 0),
        (64, 32, 4, (3, 3), {"stride": (2, 2), "padding": (1, 0, 0, 1)}, "int8", -3, 0),
        (16, 32, 4, (2, 3), {"dilation": (2, 1)}, "uint8", 77, None),
        (64, 16, 8, (1, 1), {}, "uint8", 0, 0),
    ):
        x = m.activations((2, channels, 9, 17), dtype, zero)
        w = m.weights((filters, channels // groups, *window), axis)
        y = x.apply("conv", w, groups=groups, **attrs) + m.bias(filters, 1, 1)
        m.outputs.append(m.through_bytes(y, dtype, zero))
    texts = check(m)
    assert sum("gh::depthwise_bytes" in text for text in texts) == 3
    assert whole(texts) == 9


def test_a_residual_block() -> None:
    m = Maker(2)
    x = m.activations((1, 16, 10, 10), "uint8", 12)
    around = {"padding": (1, 1, 1, 1)}
    inner = m.through_bytes(x.apply("conv", m.weights((16, 16, 3, 3), 0), **around).apply("relu"),
                            "uint8", 0)  # fmt: skip
    y = inner.apply("conv", m.weights((16, 16, 3, 3), 0), **around) + x
    m.outputs.append(m.through_bytes(y.apply("relu"), "uint8", 7))
    texts = check(m)
    assert whole(texts) == 2
    assert len(texts) == 3, "quantizing, and one kernel for each convolution with all around it"


@pytest.mark.parametrize("what", ["zero point", "weights by row"])
def test_what_has_no_kernel_is_right(what: str) -> None:
    m = Maker(3)
    x = m.activations((6, 12), "uint8", 3)
    y = x.apply("matmul", m.weights((12, 9), 0 if what[0] == "w" else 1, int(what[0] == "z")))
    m.outputs.append(m.through_bytes(y, "uint8", 100))
    assert whole(check(m)) == 0


def test_products_of_two_activations() -> None:
    m = Maker(5)
    for left, right, turned, types, zeros in (
        ((2, 3, 70, 33), (2, 3, 33, 20), False, ("uint8", "uint8"), (7, 130)),
        ((2, 3, 70, 33), (2, 3, 20, 33), True, ("int8", "uint8"), (-9, 0)),
        ((4, 5, 64), (4, 64, 97), False, ("uint8", "int8"), (255, -3)),
        ((1, 6, 300), (1, 35, 300), True, ("int8", "int8"), (4, 0)),
        ((3, 5, 8), (1, 8, 6), False, ("uint8", "uint8"), (0, 128)),
    ):
        x = m.activations(left, types[0], zeros[0])
        # Of 0.05 * 0.05 / 0.05 a twentieth lies half way between two steps.
        y = m.activations(right, types[1], zeros[1], step=0.0371)
        m.outputs.append(m.through_bytes(x.apply("matmul", y, transpose_y=turned), "int8", 1))
    assert whole(check(m)) == 5


def test_attention_reads_heads_where_they_lie() -> None:
    """Keys come turned and scaled through bytes, as exporters write them."""
    m = Maker(6)
    batch, length, heads, width = 2, 9, 3, 16
    q, k, v = (m.activations((batch, length, heads * width), "uint8", 125 + i) for i in range(3))
    split = {"shape": (batch, length, heads, width)}
    q, v = (x.apply("reshape", **split).apply("permute", axes=(0, 2, 1, 3)) for x in (q, v))
    k = k.apply("reshape", **split).apply("permute", axes=(0, 2, 3, 1))
    small = m.builder.constant(np.array([0.3], "f"))
    scores = m.through_bytes(q, "uint8", 125).apply(
        "matmul", m.through_bytes(k * small, "uint8", 7)
    )
    # Steps that are no multiples of each other: sums do not fall on halves, where rounding decides.
    scores = m.through_bytes(scores, "uint8", 128, 0.0531)
    weights = m.through_bytes(scores.apply("softmax"), "uint8", 0, 0.00392)
    mixed = m.through_bytes(weights.apply("matmul", m.through_bytes(v, "uint8", 127)), "uint8", 128)
    m.outputs.append(mixed.apply("permute", axes=(0, 2, 1, 3)))
    texts = check(m, steps=2)  # a step of a weight, which was close, and one of the result
    assert sum("gh::gemm_bytes" in text for text in texts) == 2
    assert not any("DotF32" in text for text in texts)


def test_what_lies_between_bytes_is_looked_up() -> None:
    m = Maker(7)
    for dtype, zero, name in (("uint8", 90, "gelu"), ("int8", -3, "tanh"), ("int8", 0, "relu")):
        x = m.activations((70, 40), dtype, zero)
        y = m.through_bytes(x.apply("matmul", m.weights((40, 70), 1)), dtype, zero)
        m.outputs.append(m.through_bytes(y.apply(name), dtype, 3))
    texts = check(m)
    assert whole(texts) == 3
    assert sum("gh::ByteTable" in text for text in texts) == 2, "a relu is cheaper than a look-up"


def test_bytes_are_pooled_as_bytes() -> None:
    m = Maker(8)
    for dtype, zero, channels in (("uint8", 0, 5), ("int8", 11, 70)):
        x = m.activations((2, 3, 11, 15), dtype, zero)
        y = x.apply("conv", m.weights((channels, 3, 7, 7), 0), padding=(3, 3, 3, 3), stride=(2, 2))
        pooled = m.through_bytes(y, dtype, zero).apply(
            "max_pool", kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1)
        )
        m.outputs.append(m.through_bytes(pooled, dtype, zero))
    texts = check(m)
    pools = [text for text in texts if "pool2d" in text]
    assert len(pools) == 2
    assert not any("gh::quantize<" in text for text in pools)


def test_layers_that_differ_in_scales_and_zero_points_are_one_function() -> None:
    m = Maker(9)
    for step, zero in ((0.05, 17), (0.031, 99)):
        x = m.activations((5, 33), "uint8", zero)
        y = x.apply("matmul", m.weights((33, 70), 1)) + m.bias(70)
        hidden = m.through_bytes(y.apply("gelu"), "uint8", zero + 1, step)
        z = hidden.apply("matmul", m.weights((70, 70), 1))
        m.outputs.append(m.through_bytes(z, "uint8", zero, step))
    texts = check(m)
    assert len(texts) == 6
    assert len(set(texts)) == 3


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("scale", [0.0369106, (2 - 2**-23) * 2**-6, 2.0**-100, 2.0**-130])
def test_quantizing_rounds_as_a_division(dtype: str, scale: float) -> None:
    """Kernels multiply where that rounds as a division; halves of a step and their neighbours tell.
    Not with a fraction that is all ones, nor with scales at the end of the floats."""
    scale = np.float32(scale)
    halves = (np.arange(-400, 400) + np.float32(0.5)).astype("f") * scale
    near = np.concatenate([halves.view(np.int32) + d for d in range(-3, 4)]).view("f")
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38, -3e38], "f")
    x = np.concatenate([near, odd, np.zeros(-(near.size + odd.size) % 16, "f")])
    b = GraphBuilder()
    given = b.input("float32", x.shape)
    zeros = [b.constant(np.array(zero, dtype)) for zero in (74, 0)]
    made = [given.apply("quantize", b.constant(scale), z, dtype=as_dtype(dtype)) for z in zeros]
    back = made[1].apply("dequantize", b.constant(np.float32(1.5)), zeros[1])
    graph = b.finish(*made, back)
    for ours, wanted in zip(compile_graph(optimize(graph))(x), run(graph, [x]), strict=True):
        assert np.array_equal(ours, wanted)
