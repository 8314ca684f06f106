"""A chain of 20,000 nodes goes through everything without recursion."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import Graph, GraphBuilder, Rewriter, parse_graph, print_graph, verify
from glasshouse.numpy_ref import run

DEPTH = 20_000


@pytest.fixture(autouse=True)
def low_recursion_limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(500)
    yield
    sys.setrecursionlimit(before)


@pytest.fixture(scope="module")
def chain() -> Graph:
    b = GraphBuilder()
    x = b.input("float64", [2])
    for _ in range(DEPTH):
        x = x.apply("negative")
    return b.finish(x)


def test_verify_and_copy(chain: Graph) -> None:
    verify(chain)
    twin = chain.copy()
    verify(twin)
    assert len(twin) == DEPTH + 1


def test_print_and_parse(chain: Graph) -> None:
    text = print_graph(chain)
    again = parse_graph(text)
    assert len(again) == DEPTH + 1
    assert print_graph(again) == text


def test_run(chain: Graph) -> None:
    np.testing.assert_array_equal(run(chain, [np.array([1.0, 2.0])])[0], [1, 2])


def test_a_rewrite_in_the_middle_and_the_death_of_the_rest(chain: Graph) -> None:
    graph = chain.copy()
    middle = graph.nodes[DEPTH // 2]
    rw = Rewriter(graph)
    rw.replace(middle, lambda: rw.expr(graph.inputs[0]).apply("exp"), why="a test")
    verify(graph)
    # What led to the middle died with it: 9,999 nodes before it and the middle itself.
    assert len(graph) == DEPTH + 2 - DEPTH // 2


def test_order_of_a_graph_whose_nodes_were_made_backwards(chain: Graph) -> None:
    graph = chain.copy()
    graph._nodes = dict(reversed(graph._nodes.items()))
    graph._order = None
    assert [n.id for n in graph.nodes] == [n.id for n in chain.nodes]


def test_many_inputs_one_consumer() -> None:
    b = GraphBuilder()
    xs = [b.input("float32", [1]) for _ in range(3000)]
    graph = b.finish(b.apply("concat", *xs, axis=0))
    verify(graph)
    assert graph.outputs[0].type.shape == (3000,)
