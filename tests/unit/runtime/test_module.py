"""Compiled modules as a user meets them: data in and out, constants, state, symbols, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.errors import ExecutionError, Unsupported
from glasshouse.ir import Graph, GraphBuilder, symbol
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run
from glasshouse.record.schema import ErrorRow, KernelRow, TimeRow
from glasshouse.runtime.compiler import compile_graph
from glasshouse.runtime.module import Module

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def linear() -> tuple[Graph, Module]:
    """relu(x @ w + b) with named constants."""
    builder = GraphBuilder()
    x = builder.input("float32", [5, 24], name="x")
    w = builder.weight(floats(24, 40), name="w")
    b = builder.weight(floats(40), name="b")
    graph = builder.finish((x.apply("matmul", w) + b).apply("relu"))
    return graph, gh.compile(graph)


def test_arrays_and_tensors_give_the_same(linear: tuple[Graph, Module]) -> None:
    graph, module = linear
    x = floats(5, 24)
    (expected,) = run(graph, [x])
    np.testing.assert_allclose(module(x), expected, rtol=1e-5, atol=1e-5)
    out = module(torch.from_numpy(x))
    assert isinstance(out, torch.Tensor)
    np.testing.assert_array_equal(out.numpy(), module(x))


def test_whatever_is_not_quick_still_runs(linear: tuple[Graph, Module]) -> None:
    """Arguments that the quick way does not take: it says so, and the general way takes over."""
    _, module = linear
    x = floats(5, 24)
    expected = module(x)
    apart = torch.from_numpy(np.ascontiguousarray(x.T)).T
    frozen = x.copy()
    frozen.flags.writeable = False
    held = torch.nn.Parameter(apart, requires_grad=False)
    for given in (np.asfortranarray(x), frozen, apart, held):
        out = module(given)
        assert isinstance(out, torch.Tensor) == isinstance(given, torch.Tensor)
        np.testing.assert_array_equal(np.asarray(out), expected)
    for wrong in (torch.zeros(5, 24, dtype=torch.float64), torch.zeros(5, 24).bool()):
        with pytest.raises(ExecutionError, match=r"x must be float32\[5, 24\], got"):
            module(wrong)


def test_bfloat16_leaves_as_each_library_can_hold_it() -> None:
    builder = GraphBuilder()
    module = compile_graph(builder.finish(builder.input("bfloat16", [3]).apply("relu")))
    x = np.array([-1, 0.5, 3], np.float32)
    out = module(torch.from_numpy(x).bfloat16())
    assert out.dtype is torch.bfloat16
    np.testing.assert_array_equal(out.float().numpy(), np.maximum(x, 0))
    _, _, (again,) = module.benchmark_with_tensors([x], count=2)
    np.testing.assert_array_equal(again, np.maximum(x, 0))


def test_results_go_into_given_buffers(linear: tuple[Graph, Module]) -> None:
    _, module = linear
    x, out = floats(5, 24), torch.zeros(5, 40)
    module.run_with_tensors({"x": x}, [out])
    np.testing.assert_array_equal(out.numpy(), module(x))
    with pytest.raises(ExecutionError, match="contiguous float32"):
        module.run_with_tensors([x], [np.zeros((5, 39), np.float32)])


def test_new_constants_count_from_the_next_run(linear: tuple[Graph, Module]) -> None:
    graph, _ = linear
    module = gh.compile(graph)
    x, w = floats(5, 24), floats(24, 40)
    bias = next(n.attrs["data"] for n in graph.nodes if n.attrs.get("name") == "b")
    module.set_constant("w", torch.from_numpy(w))
    np.testing.assert_allclose(module(x), np.maximum(x @ w + bias, 0), rtol=1e-4, atol=1e-5)
    with pytest.raises(ExecutionError, match="there is no constant 'v'"):
        module.set_constant("v", w)


def test_wrong_inputs_are_named(linear: tuple[Graph, Module]) -> None:
    _, module = linear
    with pytest.raises(ExecutionError, match=r"x must be float32\[5, 24\], got shape \[4, 24\]"):
        module(floats(4, 24))
    with pytest.raises(ExecutionError, match=r"x must be float32\[5, 24\], got float64"):
        module(np.zeros((5, 24)))


def test_one_compilation_serves_every_size_in_the_range() -> None:
    builder = GraphBuilder()
    n = symbol("n", 1, 50)
    x = builder.input("float32", [n, 8])
    w = builder.weight(floats(8, 16))
    y = x.apply("matmul", w).apply("softmax")
    graph = builder.finish(y, y.apply("sum", axes=[0]), y.apply("reshape", shape=(n * 16,)))
    module = gh.compile(graph)
    for size in (1, 7, 50):
        x_ = floats(size, 8)
        for ours, expected in zip(module(x_), run(graph, [x_]), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ExecutionError, match="n is 51, compiled for 1 to 50"):
        module(floats(51, 8))


def test_variables_keep_their_new_values_between_runs() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [3])
    total = builder.variable(np.zeros(3, np.float32), name="total")
    new = total + x
    builder.update(total, new)
    module = compile_graph(builder.finish(new * 1.0, total))
    x_ = np.array([1, 2, 3], np.float32)
    first, before = module(x_)
    second, between = module(x_)
    np.testing.assert_array_equal([first, before], [x_, 0 * x_])
    np.testing.assert_array_equal([second, between], [2 * x_, x_])


def test_what_has_no_kernel_runs_through_python_and_is_seen() -> None:
    body = GraphBuilder()
    doubled = body.finish(body.input("float32", [2, 3]) * 2.0)
    builder = GraphBuilder()
    x, asked = builder.input("float32", [2, 3]), builder.input("bool", [])
    y = asked.apply("cond", x * 2.0, then=doubled, other=doubled).apply("relu")
    module = compile_graph(builder.finish(y))
    assert [s.node.op.name for s in module.program.steps if isinstance(s, Fallback)] == ["cond"]
    x_ = floats(2, 3)
    np.testing.assert_array_equal(module(x_, np.array(True)), np.maximum(x_ * 4, 0))


def test_an_index_outside_of_its_tensor_is_an_error() -> None:
    builder = GraphBuilder()
    table = builder.input("float32", [4, 3])
    indices = builder.input("int64", [2])
    module = compile_graph(builder.finish(table.apply("take", indices)))
    np.testing.assert_array_equal(module(np.ones((4, 3), np.float32), np.array([-1, 3])), 1.0)
    with pytest.raises(ExecutionError, match="outside"):
        module(np.ones((4, 3), np.float32), np.array([0, 4]))


def test_a_target_that_is_not_there_is_refused(linear: tuple[Graph, Module]) -> None:
    with pytest.raises(Unsupported, match="there is no target 'tpu'"):
        gh.compile(linear[0], target="tpu")


def test_a_reduction_over_split_axes_gets_kernels_of_its_own() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [4, 3, 6])
    split = x.apply("permute", axes=(1, 0, 2)).apply("reshape", shape=(3, 24))
    graph = builder.finish((split * 2.0).apply("sum", axes=[1]))
    x_ = floats(4, 3, 6)
    np.testing.assert_allclose(gh.compile(graph)(x_), run(graph, [x_])[0], rtol=1e-5, atol=1e-5)


def test_equal_layers_share_one_kernel_and_memory() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [4, 16])
    for _ in range(6):
        x = (x.apply("matmul", builder.weight(floats(16, 16))) + 1.0).apply("tanh")
    module = gh.compile(builder.finish(x))
    assert len(module.program.steps) == 6
    assert len(module.program.kernels) == 1
    between = 4 * 16 * 4  # bytes of a value; five lie between kernels, two at a time
    assert module.plan.tensor_bytes == 5 * between
    assert module.plan.work_offset == 2 * between
    assert "6 calls of 1 kernels\narena: 0.00 MB for tensors of 0.00 MB" in module.summary()
    assert module.recording().header.facts["tensor bytes"] == str(5 * between)


def test_the_recording_holds_code_times_and_errors(linear: tuple[Graph, Module]) -> None:
    _, module = linear
    recording = module.recording(floats(5, 24))
    view = recording.graphs[0]
    kernels = list(view.table(KernelRow))
    assert [k.node for k in kernels] == [s.node.id for s in module.program.steps]
    assert "gh::gemm" in kernels[0].code
    assert {t.kernel for t in view.table(TimeRow)} == {k.id for k in kernels}
    last = len(view.info.stages) - 1
    (error,) = [e for e in view.table(ErrorRow) if e.stage == last]
    assert 0 < error.own < error.tolerance < 1e-4
    assert error.inherited < 1e-6
    passes = [e for e in view.table(ErrorRow) if e.stage != last]
    assert {view.info.stages[e.stage].name for e in passes} >= {"FoldConstant", "FuseOperator"}
    assert all(e.own <= 1e-6 < e.tolerance for e in passes)
    assert [s.pass_name for s in view.info.stages][1] == "FoldConstant"
