"""The reference executor: state, sizes, fused bodies, observers, wrong inputs."""

from __future__ import annotations

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.errors import ExecutionError
from glasshouse.ir import GraphBuilder, parse_graph, symbol
from glasshouse.ir.dtype import bfloat16
from glasshouse.numpy_ref import run
from glasshouse.ops.control import body_of
from glasshouse.ops.fused import fused

N = symbol("n", 1, 64)


def test_variables_live_between_runs() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (2,))
    state = builder.variable(np.zeros(2, np.float32), name="total")
    new = state + x
    builder.update(state, new)
    graph = builder.finish(new)
    variables: dict[str, np.ndarray] = {}
    run(graph, [np.ones(2, np.float32)], variables=variables)
    run(graph, [np.ones(2, np.float32)], variables=variables)
    np.testing.assert_array_equal(variables["total"], [2, 2])
    np.testing.assert_array_equal(run(graph, [np.ones(2, np.float32)])[0], [1, 1])


def test_a_fused_node_runs_its_body() -> None:
    builder = GraphBuilder()
    x, y = builder.input("float32", (N, 3)), builder.input("float32", (3,))
    body = body_of(lambda a, b: (a * b).apply("relu"), x, y)
    graph = builder.finish(fused(x, y, body=body, label="FusedMultiply*", fusion="Multiply Relu"))
    data = np.array([[1, -2, 3]], np.float32)
    np.testing.assert_array_equal(run(graph, [data, np.ones(3, np.float32)])[0], [[1, 0, 3]])


def test_an_observer_sees_every_node_once() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (2,))
    graph = builder.finish((x + 1.0).apply("relu"))
    seen: list[str] = []
    run(graph, [np.zeros(2, np.float32)], observer=lambda node, _: seen.append(node.op.name))
    assert seen == ["input", "constant", "add", "relu"]


def test_bfloat16_rounds_every_result() -> None:
    builder = GraphBuilder()
    x = builder.input(bfloat16, (1,))
    graph = builder.finish(x + x * 0.001)
    assert run(graph, [np.array([256.0], np.float32)])[0] == 256.0
    stored = np.array([0x4380], np.uint16)  # 256 as the bytes of a bfloat16
    assert run(graph, [stored])[0] == 256.0


def test_sizes_come_from_the_inputs() -> None:
    builder = GraphBuilder()
    m = symbol("m", 1)
    x, y = builder.input("float32", (N * 2 + 1,)), builder.input("float32", (N, m))
    graph = builder.finish(builder.apply("full", shape=(m, N), value=1.0), x, y)
    out = run(graph, [np.zeros(7, np.float32), np.zeros((3, 5), np.float32)])
    assert out[0].shape == (5, 3)
    with pytest.raises(ExecutionError, match="must have shape"):
        run(graph, [np.zeros(8, np.float32), np.zeros((3, 5), np.float32)])


def test_wrong_inputs() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (2, 3), name="tokens")
    graph = builder.finish(x * 2.0)
    with pytest.raises(ExecutionError, match="takes 1 inputs, 2 were given"):
        run(graph, [np.zeros((2, 3)), np.zeros(1)])
    with pytest.raises(ExecutionError, match=r"tokens must have shape float32\[2, 3\]"):
        run(graph, [np.zeros((3, 2), np.float32)])


def test_constants_without_data() -> None:
    text = """
    Graph(x: float32[2]){
      c = Constant(float32[2])
      x_1: float32[2] = Add(x, c)
      return x_1
    }
    """
    with pytest.raises(ExecutionError, match="has no data"):
        run(parse_graph(text), [np.zeros(2, np.float32)])
