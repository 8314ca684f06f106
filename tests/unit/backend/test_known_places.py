"""Places from data that stay the same along a loop are checked once, before it."""

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.errors import ExecutionError
from glasshouse.ir import Graph, GraphBuilder


def _distances(summed: bool = True) -> Graph:
    """Of each query to the rows of a table that it names, element by element or summed up."""
    b = GraphBuilder()
    x, table = b.input("float32", [3, 1, 40]), b.input("float32", [9, 40])
    places = b.input("int64", [3, 5])
    rows = table.apply("take", places, axis=0)
    apart = (x - rows).apply("absolute")
    return b.finish(apart.apply("sum", axes=(2,)) if summed else apart)


def _data(places: list[int]) -> list[np.ndarray]:
    drawn = np.random.default_rng(0)
    at = np.resize(np.array(places, np.int64), (3, 5))
    floats = [drawn.standard_normal(shape).astype(np.float32) for shape in ((3, 1, 40), (9, 40))]
    return [*floats, at]


@pytest.mark.parametrize("summed", [True, False])
def test_the_check_stands_before_the_loop(summed):
    module = gh.compile(_distances(summed))
    (text,) = (k for k in module.source.kernels.values() if "ctx.index" in k)
    lines = text.splitlines()
    (check,) = (n for n, line in enumerate(lines) if "ctx.index" in line)
    assert check < max(n for n, line in enumerate(lines) if "for" in line)
    x, table, places = _data([0, 8, -1, -9, 4])
    wanted = np.abs(x - table[places])
    wanted = wanted.sum(2) if summed else wanted
    np.testing.assert_allclose(module(x, table, places), wanted, 1e-5)


def test_a_place_outside_is_still_reported():
    module = gh.compile(_distances())
    with pytest.raises(ExecutionError, match="index"):
        module(*_data([0, 9, 1]))


def test_a_place_inside_of_quotients_is_checked_before_the_loop():
    """Rows of a turned image, of which each is taken where data say."""
    b = GraphBuilder()
    image, places = b.input("float32", [3, 16, 20]), b.input("int64", [7])
    rows = image.apply("permute", axes=(0, 2, 1)).apply("reshape", shape=(60, 16))
    graph = b.finish(rows.apply("take", places, axis=0) * 2.0)
    module = gh.compile(graph)
    (text,) = (k for k in module.source.kernels.values() if "ctx.index" in k)
    assert text.count("ctx.index") == 1
    data = np.arange(960, dtype=np.float32).reshape(3, 16, 20)
    at = np.array([0, 59, -1, -60, 21, 40, 19])
    wanted = data.transpose(0, 2, 1).reshape(60, 16)[at] * 2
    np.testing.assert_array_equal(module(data, at), wanted)
    with pytest.raises(ExecutionError, match="index"):
        module(data, at + 1)
