"""full and arange with symbolic sizes and element types that torch cannot be asked for."""

from __future__ import annotations

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.errors import TypeMismatch
from glasshouse.ir import GraphBuilder, symbol
from glasshouse.numpy_ref import run

N = symbol("n", 1, 64)


def test_symbolic_sizes() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (N,))
    places = builder.apply("arange", stop=N)
    back = builder.apply("arange", start=N - 1, stop=-1, step=-1)
    odd = builder.apply("arange", start=1, stop=2 * N, step=2)
    size = builder.apply("full", shape=(), value=N)
    table = builder.apply("full", shape=(N, 2), value=0.5, dtype="bfloat16")
    assert places.shape == back.shape == odd.shape == (N,)
    outputs = run(builder.finish(places, back, odd, size, table, x), [np.zeros(4, np.float32)])
    assert [o.tolist() for o in outputs[:4]] == [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 5, 7], 4]
    assert outputs[4].shape == (4, 2)


def test_an_arange_that_may_be_empty() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (N,))
    few = builder.apply("arange", start=3, stop=N)
    assert str(few.shape[0]) == "max(0, n - 3)"
    graph = builder.finish(few, x)
    assert run(graph, [np.zeros(5, np.float32)])[0].tolist() == [3, 4]
    assert run(graph, [np.zeros(2, np.float32)])[0].tolist() == []


def test_default_types() -> None:
    builder = GraphBuilder()
    kinds = [builder.apply("full", shape=(), value=v).dtype.name for v in (True, 1, 1.0)]
    assert kinds == ["bool", "int64", "float32"]
    assert builder.apply("arange", stop=2.5).dtype.name == "float32"


def test_sizes_and_fractions_do_not_mix() -> None:
    builder = GraphBuilder()
    with pytest.raises(TypeMismatch, match="do not mix"):
        builder.apply("arange", stop=N, step=0.5)
