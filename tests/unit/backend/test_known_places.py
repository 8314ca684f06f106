"""Places from data that stay the same along a fold are checked once, before it."""

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.errors import ExecutionError
from glasshouse.ir import Graph, GraphBuilder


def _distances() -> Graph:
    """Of each query to the rows of a table that it names."""
    b = GraphBuilder()
    x, table = b.input("float32", [3, 1, 40]), b.input("float32", [9, 40])
    places = b.input("int64", [3, 5])
    rows = table.apply("take", places, axis=0)
    return b.finish((x - rows).apply("absolute").apply("sum", axes=(2,)))


def _data(places: list[int]) -> list[np.ndarray]:
    drawn = np.random.default_rng(0)
    at = np.resize(np.array(places, np.int64), (3, 5))
    floats = [drawn.standard_normal(shape).astype(np.float32) for shape in ((3, 1, 40), (9, 40))]
    return [*floats, at]


def test_the_check_stands_before_the_fold():
    module = gh.compile(_distances())
    (text,) = (k for k in module.source.kernels.values() if "ctx.index" in k)
    lines = text.splitlines()
    (check,) = (n for n, line in enumerate(lines) if "ctx.index" in line)
    assert check < next(n for n, line in enumerate(lines) if "acc" in line)
    x, table, places = _data([0, 8, -1, -9, 4])
    wanted = np.abs(x - table[places]).sum(2)
    np.testing.assert_allclose(module(x, table, places), wanted, 1e-5)


def test_a_place_outside_is_still_reported():
    module = gh.compile(_distances())
    with pytest.raises(ExecutionError, match="index"):
        module(*_data([0, 9, 1]))
