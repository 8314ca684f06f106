"""Variables of compiled modules: what runs write is what the next run reads, whatever the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse import nn, optim
from glasshouse.errors import ExecutionError
from glasshouse.ir import GraphBuilder
from glasshouse.numpy_ref import run
from glasshouse.runtime.compiler import compile_graph

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def test_a_training_step_equals_the_reference_however_it_is_run() -> None:
    """Sizes that no vector divides, because edges are where overwriting could go wrong."""
    gh.manual_seed(0)
    model = nn.Sequential(nn.Linear(33, 37), nn.Tanh(), nn.Linear(37, 5))
    optimizer = optim.Adam(model.named_parameters(), 0.01)

    def step(x: gh.Tensor, y: gh.Tensor) -> gh.Tensor:
        loss = (model(x) - y).square().mean()
        optimizer.step(loss)
        return loss

    x, y = floats(7, 33), floats(7, 5)
    graph = gh.trace(step, x, y)
    module = gh.compile(graph)
    state: dict[str, Any] = {}
    ways = [
        module, module, lambda *a: module.watch(a, lambda *_: None)[0], module,
        lambda *a: module.run_with_tensors(a, [np.empty((), np.float32)])[0],
    ]  # fmt: skip
    for way in ways:
        (wanted,) = run(graph, [x, y], variables=state)
        np.testing.assert_allclose(way(x, y), wanted, rtol=1e-4)
    for node in module.graph.updates:
        held = module.source_array(node)
        np.testing.assert_allclose(held, state[node.attrs["name"]], rtol=1e-3, atol=1e-5)
    assert len(module._state.turns) == 1  # all of it was written over the old values


def test_a_step_that_fails_leaves_the_variables() -> None:
    gh.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optim.Adam(model.parameters(), 0.05)

    def step(x: gh.Tensor, y: gh.Tensor) -> gh.Tensor:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.step(loss)
        return loss

    x, y, bad = floats(4, 6), np.array([0, 1, 2, 0]), np.array([0, 1, 2, 99])
    module = gh.compile(gh.trace(step, x, y))
    for _ in range(3):
        module(x, y)
        before = {name: np.array(held) for name, held in module.held().items()}
        with pytest.raises(ExecutionError, match="an index lies outside"):
            module(x, bad)
        for name, held in module.held().items():
            np.testing.assert_array_equal(held, before[name])


def test_old_values_are_read_before_they_are_replaced() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [9])
    total = builder.variable(np.zeros(9, np.float32), name="total")
    a = builder.variable(np.full(9, 1, np.float32), name="a")
    b = builder.variable(np.full(9, 2, np.float32), name="b")
    new = total + x
    builder.update(total, new)
    late = (total * 2.0).apply("sum", axes=[0])  # after the new value was computed
    builder.update(a, b)
    builder.update(b, a)
    module = compile_graph(builder.finish(new * 1.0, late, a * 1.0))
    assert len(module._state.turns) == 2
    x_ = np.arange(9, dtype=np.float32)
    for count in range(1, 4):
        sums, before, one = module(x_)
        np.testing.assert_array_equal(sums, count * x_)
        assert before == 2 * (count - 1) * x_.sum()
        np.testing.assert_array_equal(one, 1 if count % 2 else 2)


def test_a_run_that_fails_changes_nothing() -> None:
    builder = GraphBuilder()
    indices = builder.input("int64", [2])
    rows = builder.variable(np.ones((4, 3), np.float32), name="rows")
    builder.update(rows, rows * 2.0)
    module = compile_graph(builder.finish(rows.apply("take", indices)))
    with pytest.raises(ExecutionError, match="outside"):
        module(np.array([0, 4]))
    np.testing.assert_array_equal(module(np.array([0, 1])), 1.0)
    np.testing.assert_array_equal(module(np.array([0, 1])), 2.0)
    module.set_constant("rows", np.zeros((4, 3), np.float32))
    np.testing.assert_array_equal(module(np.array([2, 3])), 0.0)
    with pytest.raises(ExecutionError, match="no second buffer"):
        module.set_double_buffer_constant("rows", np.zeros((4, 3), np.float32))


@pytest.mark.parametrize("copied", [False, True], ids=["made", "copied"])
@pytest.mark.parametrize("general", [False, True], ids=["quick", "general"])
def test_new_constants_are_seen_whatever_the_path(general: bool, copied: bool) -> None:
    """An output that is handed out twice, or is a constant, is copied."""
    builder = GraphBuilder()
    x = builder.input("float32", [3, 4])
    w = builder.weight(np.ones((4, 2), np.float32), name="w")
    y = x.apply("matmul", w)
    graph = builder.finish(y, y, w) if copied else builder.finish(y, y * 1.0, w * 1.0)
    module = compile_graph(graph)
    assert module._quick is not None
    x_ = np.ones((3, 4), np.float32, order="F" if general else "C")  # quick calls take rows alone
    np.testing.assert_array_equal(module(x_)[0], 4.0)
    module.set_constant("w", np.full((4, 2), 3, np.float32))
    np.testing.assert_array_equal(module(x_)[0], 12.0)
    np.testing.assert_array_equal(module.watch([x_], lambda *_: None)[1], 12.0)
    module.set_double_buffer_constant("w", np.full((4, 2), 5, np.float32))
    np.testing.assert_array_equal(module(x_)[1], 12.0)
    np.testing.assert_array_equal(module(x_)[2], 3.0)
    module.swap_constants()
    assert all(t.seconds > 0 for t in module.profile(x_, count=1))
    np.testing.assert_array_equal(module(x_)[1], 20.0)
    np.testing.assert_array_equal(module(x_)[2], 5.0)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["arrays", "tensors"])
def test_outputs_that_no_kernel_makes_have_memory_of_their_own(kind: Any) -> None:
    """A result that leaves twice, an argument, a constant and a variable as it was before the run;
    who writes into one of them (an optimiser that adds to gradients) writes into no other."""
    builder = GraphBuilder()
    x = builder.input("float32", [3])
    w = builder.weight(np.full(3, 7, np.float32), name="w")
    steps = builder.variable(np.zeros(3, np.float32), name="steps")
    builder.update(steps, steps + x)
    y = x * 2.0
    module = compile_graph(builder.finish(y, x, y, w, steps, y))
    assert module._quick is not None
    x_ = kind(np.array([1, -0.0, np.nan], np.float32))
    for count in range(3):
        steps_ = x_ * count if count else np.zeros(3)
        found = module(x_)
        for have, want in zip(
            found, [x_ * 2, x_, x_ * 2, np.full(3, 7), steps_, x_ * 2], strict=True
        ):
            np.testing.assert_array_equal(np.asarray(have), np.asarray(want))
        for one in found:
            one[:] = 99
    given = [kind(np.empty(3, np.float32)) for _ in found]
    module.run_with_tensors([x_], given)
    np.testing.assert_array_equal(np.asarray(given[5]), np.asarray(x_ * 2))
    np.testing.assert_array_equal(np.asarray(given[1]), np.asarray(x_))
