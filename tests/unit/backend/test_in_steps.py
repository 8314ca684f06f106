"""Epilogues of whole sums in steps: the bytes of the reference, with odd numbers among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glasshouse.ir import Expr, GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph

Array = np.ndarray[Any, Any]
ROWS, DEPTH, COLUMNS = 37, 20, 50  # more than a tile of rows; two vectors of columns, one in part


class Layers:
    """Products of bytes; scales are such that hardly anything lies half way between two steps."""

    def __init__(self, dtype: str, zero: int) -> None:
        self.b, self.rng = GraphBuilder(), np.random.default_rng(7)
        self.dtype, self.zero = dtype, zero
        self.given: list[Array] = []

    def through(self, x: Expr, step: float, zero: int | None = None) -> Expr:
        point = self.b.constant(np.array(self.zero if zero is None else zero, self.dtype))
        scale = self.b.constant(np.float32(step))
        stored = x.apply("quantize", scale, point, dtype=as_dtype(self.dtype))
        return stored.apply("dequantize", scale, point)

    def input(self, columns: int, step: float) -> Expr:
        self.given.append(self.rng.standard_normal((ROWS, columns)).astype("f"))
        return self.through(self.b.input("float32", (ROWS, columns)), step)

    def product(self, x: Expr) -> Expr:
        data = self.b.weight(self.rng.integers(-127, 128, (DEPTH, COLUMNS)).astype("i1"), "int8")
        scale = self.b.weight(self.rng.uniform(0.001, 0.003, COLUMNS).astype("f"), "float32")
        zeros = self.b.weight(np.zeros(COLUMNS, np.int8), "int8")
        return x.apply("matmul", data.apply("dequantize", scale, zeros, axis=1))

    def bias(self, *odd: float) -> Expr:
        data = self.rng.standard_normal(COLUMNS).astype("f")
        data[: len(odd)] = odd
        return self.b.weight(data, "float32")

    def check(self, *outputs: Expr, step: float) -> str:
        """At most a step from the reference, and hardly ever; the text of the last kernel."""
        graph = self.b.finish(*outputs)
        module = compile_graph(optimize(graph))
        results = module(*self.given)
        many = results if isinstance(results, tuple) else (results,)
        for ours, wanted in zip(many, run(graph, self.given), strict=True):
            off = np.abs(ours.astype("d") - wanted)
            assert off.max() <= step * 1.001
            assert (off != 0).mean() < 0.001
        return list(module.source.kernels.values())[-1]


@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 0), ("uint8", 131), ("int8", -128)])
@pytest.mark.parametrize("behind", ["", "relu"])
def test_sums_and_biases_become_steps(dtype: str, zero: int, behind: str) -> None:
    m = Layers(dtype, zero)
    odd = (np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-45)
    y = m.product(m.input(DEPTH, 0.0217)) + m.bias(*odd)
    text = m.check(m.through(y.apply(behind) if behind else y, 0.0391), step=0.0391)
    assert "of_steps(" in text
    assert ("gh::relu(" in text) == bool(behind)


def test_a_residual_is_added_in_steps() -> None:
    """Bytes that are dequantized as they were quantized never become bytes."""
    m = Layers("uint8", 119)
    inner = m.through(m.product(m.input(DEPTH, 0.0217)) + m.bias(), 0.0333, 127)
    y = inner + m.input(COLUMNS, 0.0271)
    text = m.check(m.through(y, 0.0391, 121), step=0.0391 + 0.0333)
    assert "rounded(" in text
    assert "of_steps(" in text


def test_bytes_that_others_read_stay_bytes() -> None:
    m = Layers("uint8", 119)
    inner = m.through(m.product(m.input(DEPTH, 0.0217)) + m.bias(), 0.0333, 127)
    text = m.check(inner, m.through(inner + m.input(COLUMNS, 0.0271), 0.0391), step=0.0724)
    assert "rounded(" not in text


def test_a_value_that_is_added_to_itself() -> None:
    m = Layers("uint8", 119)
    y = m.product(m.input(DEPTH, 0.0217)) + m.bias()
    other = m.input(COLUMNS, 0.0271)
    m.check(m.through(y + y, 0.0791), m.through(y + (other + other), 0.0691), step=0.0791)
