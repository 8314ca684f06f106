"""Several threads on one module: right and equal results, and constants that change under way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.errors import ExecutionError, Unsupported
from glasshouse.ir import GraphBuilder
from glasshouse.runtime.compiler import compile_graph
from glasshouse.runtime.module import Module

ROWS, INSIDE, COLUMNS = 16, 64, 192


@pytest.fixture(scope="module")
def module() -> Module:
    """relu(x @ w) @ w2 with weights of ones: every element of a result tells its weights."""
    builder = GraphBuilder()
    x = builder.input("float32", [ROWS, INSIDE])
    w = builder.weight(np.ones((INSIDE, COLUMNS), np.float32), name="w")
    w2 = builder.weight(np.ones((COLUMNS, COLUMNS), np.float32), name="w2")
    graph = builder.finish(x.apply("matmul", w).apply("relu").apply("matmul", w2))
    return gh.compile(graph, num_runtimes=3)


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """`work` on that many threads, begun at the same moment."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def test_calls_at_the_same_time_give_what_they_give_alone(module: Module) -> None:
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((ROWS, INSIDE), np.float32) for _ in range(5)]
    alone = [module(x) for x in given]

    def work(number: int) -> None:
        for _ in range(100):
            np.testing.assert_array_equal(module(given[number]), alone[number])

    together(5, work)  # more than there are runtimes: two of them wait


def test_loading_constants_disturbs_no_run_and_swapping_reaches_the_next(module: Module) -> None:
    x = np.ones((ROWS, INSIDE), np.float32)
    unit = float(INSIDE * COLUMNS)
    ended = threading.Event()

    def work(number: int) -> int:
        if number:
            seen = 0.0
            while not ended.is_set():
                y = module(x)
                # Both weights are k in one set, so that a mixture of two sets is no square.
                assert np.all(y == y[0, 0])
                root = (y[0, 0] / unit) ** 0.5
                assert root == round(root)
                assert root >= seen
                seen = root
            return int(seen)
        for k in range(2, 30):
            shapes = {"w": (INSIDE, COLUMNS), "w2": (COLUMNS, COLUMNS)}
            full = {name: np.full(shape, k, np.float32) for name, shape in shapes.items()}
            module.set_many_double_buffer_constants(full)
            assert module(x)[0, 0] == unit * (k - 1) ** 2
            module.swap_constants()
            assert module(x)[0, 0] == unit * k**2
        ended.set()
        return 29

    assert max(together(3, work)) == 29
    with pytest.raises(ExecutionError, match="no constants are loaded"):
        module.swap_constants()


def test_a_model_with_state_has_one_runtime() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [2])
    count = builder.variable(np.zeros(2, np.float32), name="count")
    builder.update(count, count + x)
    graph = builder.finish(count * 1.0)
    with pytest.raises(Unsupported, match="num_runtimes is 2"):
        compile_graph(graph, num_runtimes=2)
    module = compile_graph(graph)
    one = np.ones(2, np.float32)
    together(4, lambda _: [module(one) for _ in range(50)])
    np.testing.assert_array_equal(module(one), 200.0)  # no update was lost
