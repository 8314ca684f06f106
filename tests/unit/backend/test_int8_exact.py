"""Whole quantised models against exact integers: every byte that comes out, to one step at most.

Each layer is written twice: into a graph, and in NumPy with sums of int64 and scales of float64,
rounded to bytes where the model says so and nowhere else. Sums of whole numbers have no rounding,
so the two differ where a real number lies within float32's rounding of half a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from glasshouse.ir import Expr, GraphBuilder
from glasshouse.ir.dtype import as_dtype, float32
from glasshouse.lower.program import Call
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph

Array = np.ndarray[Any, Any]
AROUND = (1, 1, 1, 1)


@dataclass(frozen=True)
class Layer:
    """A real tensor: in the graph, and exactly; bytes with scale and zero point where it has been
    quantised."""

    expr: Expr
    real: Array
    stored: Array | None = None
    scale: float = 1.0
    bytes_: Expr | None = None

    @property
    def steps(self) -> Array:
        assert self.stored is not None
        return self.stored


class Twice:
    """Builds a model and computes it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = GraphBuilder()
        self.given: list[Array] = []

    def quantised(self, x: Layer, zero: int, dtype: str = "uint8") -> Layer:
        """Through bytes, with a scale that meets all but the farthest elements."""
        low, high = (0, 255) if dtype == "uint8" else (-128, 127)
        above, below = float(np.quantile(x.real, 0.999)), float(np.quantile(x.real, 0.001))
        scale = np.float32(max(above / max(high - zero, 1), -below / max(zero - low, 1), 1e-3))
        parameters = self.b.constant(scale), self.b.constant(np.array(zero, dtype))
        bytes_ = x.expr.apply("quantize", *parameters, dtype=as_dtype(dtype))
        steps = np.clip(np.rint(x.real / np.float64(scale)) + zero, low, high) - zero
        steps = steps.astype(np.int64)
        back = bytes_.apply("dequantize", *parameters)
        return Layer(back, steps * np.float64(scale), steps, float(scale), bytes_)

    def input(self, shape: tuple[int, ...], zero: int, dtype: str = "uint8") -> Layer:
        x = self.rng.standard_normal(shape).astype("f")
        self.given.append(x)
        return self.quantised(Layer(self.b.input("float32", shape), x.astype("d")), zero, dtype)

    def weights(self, shape: tuple[int, ...], axis: int) -> tuple[Expr, Array, Array]:
        count = shape[axis]
        data = np.clip(np.rint(self.rng.standard_normal(shape) * 36), -127, 127).astype(np.int8)
        scale = self.rng.uniform(0.001, 0.004, count).astype("f")
        point = self.b.weight(np.zeros(count, np.int8), "int8")
        stored = self.b.weight(data, "int8")
        expr = stored.apply("dequantize", self.b.weight(scale, "float32"), point, axis=axis)
        return expr, data.astype(np.int64), scale.astype("d")

    def conv(self, x: Layer, filters: int, kernel: int, stride: int = 1) -> Layer:
        pad = kernel // 2
        w, data, scale = self.weights((filters, x.steps.shape[1], kernel, kernel), 0)
        bias = self.rng.standard_normal((filters, 1, 1)).astype("f")
        attrs = {"stride": (stride, stride), "padding": (pad, pad, pad, pad)}
        expr = x.expr.apply("conv", w, **attrs) + self.b.weight(bias, "float32")
        edge = (pad, pad)
        image = np.pad(x.steps, ((0, 0), (0, 0), edge, edge))
        windows = np.lib.stride_tricks.sliding_window_view(image, (kernel, kernel), (2, 3))
        windows = windows[:, :, ::stride, ::stride]
        sums = np.einsum("nchwij,ocij->nohw", windows, data, optimize=True)
        return Layer(expr, sums * (x.scale * scale)[:, None, None] + bias)

    def linear(self, x: Layer, columns: int) -> Layer:
        w, data, scale = self.weights((x.steps.shape[-1], columns), 1)
        bias = self.rng.standard_normal(columns).astype("f")
        expr = x.expr.apply("matmul", w) + self.b.weight(bias, "float32")
        return Layer(expr, x.steps @ data * (x.scale * scale) + bias)

    def product(self, x: Layer, y: Layer, turned: bool) -> Layer:
        """Of two activations."""
        expr = x.expr.apply("matmul", y.expr, transpose_y=turned)
        other = y.steps.swapaxes(-1, -2) if turned else y.steps
        return Layer(expr, x.steps @ other * (x.scale * y.scale))

    def heads(self, x: Layer, count: int) -> Layer:
        rows, width = x.steps.shape
        shape, axes = (rows, count, width // count), (1, 0, 2)
        expr = x.expr.apply("reshape", shape=shape).apply("permute", axes=axes)
        moved = x.steps.reshape(shape).transpose(axes)
        return Layer(expr, moved * x.scale, moved, x.scale)

    def pooled(self, x: Layer) -> Layer:
        expr = x.expr.apply("max_pool", kernel=(3, 3), stride=(2, 2), padding=AROUND)
        image = np.pad(x.steps, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-999)
        windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))[:, :, ::2, ::2]
        return Layer(expr, windows.max((-1, -2)) * x.scale)


def relu(x: Layer) -> Layer:
    return Layer(x.expr.apply("relu"), np.maximum(x.real, 0))


def add(x: Layer, y: Layer) -> Layer:
    return Layer(x.expr + y.expr, x.real + y.real)


def softmax(x: Layer, factor: float) -> Layer:
    expr = (x.expr * factor).apply("softmax", axis=-1)
    e = np.exp((x.real - x.real.max(-1, keepdims=True)) * factor)
    return Layer(expr, e / e.sum(-1, keepdims=True))


def residual_network(m: Twice) -> Sequence[Layer]:
    x = m.quantised(relu(m.conv(m.input((1, 3, 40, 44), 114), 36, 7, 2)), 0)
    x = m.quantised(m.pooled(x), 0)
    x = m.quantised(relu(m.conv(x, 64, 1)), 0)
    wide = m.quantised(m.conv(m.quantised(relu(m.conv(x, 64, 3)), 0), 64, 3), 120)
    x = m.quantised(relu(add(wide, x)), 0)
    inner = m.quantised(relu(m.conv(x, 40, 3, 2)), 0)
    inner, beside = m.conv(inner, 40, 3), m.conv(x, 40, 1, 2)
    x = m.quantised(relu(add(m.quantised(inner, 131), m.quantised(beside, 90))), 0)
    means = Layer(x.expr.apply("mean", axes=(2, 3), keepdims=False), x.real.mean((2, 3)))
    return [x, m.quantised(m.linear(m.quantised(means, 0), 17), 128)]


def photographs(m: Twice) -> Sequence[Layer]:
    """So wide that the 3x3 layers have tiles enough for transforms."""
    x = m.quantised(relu(m.conv(m.input((1, 32, 22, 23), 20, "int8"), 136, 3)), -128, "int8")
    return [m.quantised(relu(m.conv(x, 40, 3)), 7)]


def layers(m: Twice) -> Sequence[Layer]:
    x = m.input((19, 70), 128)
    for width, zero, dtype in ((130, 0, "uint8"), (64, -128, "int8"), (33, 3, "int8")):
        x = m.quantised(relu(m.linear(x, width)), zero, dtype)
    return [x]


def attention(m: Twice) -> Sequence[Layer]:
    x = m.input((21, 48), 125)
    q, k, v = (m.heads(m.quantised(m.linear(x, 48), z), 3) for z in (120, 131, 128))
    scores = m.quantised(softmax(m.quantised(m.product(q, k, True), 127), 0.25), 0)
    mixed = m.quantised(m.product(scores, v, False), 126)
    rows = mixed.steps.transpose(1, 0, 2).reshape(21, 48)
    expr = mixed.expr.apply("permute", axes=(1, 0, 2)).apply("reshape", shape=(21, 48))
    joined = Layer(expr, rows * mixed.scale, rows, mixed.scale)
    return [m.quantised(add(m.linear(joined, 48), x), 119)]


@pytest.mark.parametrize("model", [residual_network, photographs, layers, attention])
def test_every_result_is_within_a_step(model: Callable[[Twice], Sequence[Layer]]) -> None:
    m = Twice(5)
    made = model(m)
    module = compile_graph(optimize(m.b.finish(*[y.expr for y in made])))
    results = module(*m.given)
    for ours, y in zip(results if isinstance(results, tuple) else (results,), made, strict=True):
        steps = np.rint(np.asarray(ours, "d") / y.scale).astype(np.int64)
        off = np.abs(steps - y.steps)
        assert off.max() <= 1
        assert (off != 0).mean() <= 0.002
        assert np.unique(y.steps).size > min(40, y.steps.size // 2), "results that say something"


def test_nothing_but_bytes_lies_between_the_kernels_of_a_residual_network() -> None:
    m = Twice(6)
    made = residual_network(m)
    module = compile_graph(optimize(m.b.finish(made[-1].expr)))
    calls = [s for s in module.program.steps if isinstance(s, Call)]
    between = [v for call in calls[:-1] for v in call.node.outputs]
    assert [v for v in between if v.type.dtype is float32] == []
    assert len(calls) <= 13
