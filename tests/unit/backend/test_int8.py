"""Quantised products and convolutions: whole numbers inside, the reference but for one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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

    def activations(self, shape: tuple[int, ...], dtype: str, zero: int) -> Expr:
        """An input that passes through bytes."""
        self.inputs.append(self.rng.standard_normal(shape, "f"))
        return self.through_bytes(self.builder.input("float32", shape), dtype, zero)

    def through_bytes(self, x: Expr, dtype: str, zero: int) -> Expr:
        scale, point = self.builder.constant(np.float32(STEP)), self.zero(dtype, zero)
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


def check(m: Maker) -> list[str]:
    """Compare with the reference; gives the texts of the kernels."""
    graph = m.finish()
    module = compile_graph(optimize(graph))
    outputs = module(*m.inputs)
    many = outputs if isinstance(outputs, tuple) else (outputs,)
    for ours, theirs in zip(many, run(graph, m.inputs), strict=True):
        assert np.abs(ours.astype(np.float64) - theirs).max() <= STEP * 1.001
        assert (ours != theirs).mean() < 0.02  # a step where rounding was close, nothing more
    return list(module.source.kernels.values())


def whole(texts: list[str]) -> int:
    return sum("gh::TilesI8" in text or "gh::depthwise_bytes" in text for text in texts)


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


@pytest.mark.slow
def test_convolutions_in_groups() -> None:
    m = Maker(4)
    for channels, filters, groups, window, attrs, dtype, zero, axis in (
        (37, 37, 37, (3, 3), {"padding": (1, 1, 1, 1)}, "uint8", 131, 0),
        (16, 16, 16, (3, 3), {"stride": (2, 2), "padding": (1, 0, 0, 1)}, "int8", -7, None),
        (8, 8, 8, (2, 5), {"dilation": (3, 2), "padding": (0, 5, 2, 4)}, "uint8", 3, 0),
        (12, 8, 4, (3, 3), {"padding": (1, 1, 1, 1)}, "uint8", 9, 0),
        (6, 12, 6, (1, 2), {}, "int8", 5, None),
    ):
        x = m.activations((2, channels, 9, 17), dtype, zero)
        w = m.weights((filters, channels // groups, *window), axis)
        y = x.apply("conv", w, groups=groups, **attrs) + m.bias(filters, 1, 1)
        m.outputs.append(m.through_bytes(y, dtype, zero))
    texts = check(m)
    assert sum("gh::depthwise_bytes" in text for text in texts) == 3
    assert whole(texts) == 5


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
