"""Tensors record what is asked of them, run it late, and let go of what nobody needs."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse import nn
from glasshouse.errors import GradientError, ShapeError, TypeMismatch
from glasshouse.ir import Graph
from glasshouse.tensor.execute import reference


@pytest.fixture
def runs():
    """The graphs that were executed."""
    seen: list[Graph] = []

    def spy(graph, inputs, report=None):
        seen.append(graph)
        return reference(graph, inputs, report)

    before = gh.set_executor(spy)
    yield seen
    gh.set_executor(before)


def labels(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes if n.inputs or n.op.name == "full"]


def test_nothing_runs_before_data_is_asked_for(runs) -> None:
    y = gh.array([1.0, 2.0]) * 2 + 1
    assert y.is_pending
    assert repr(y) == "Tensor(float32[2], pending)"
    assert runs == []
    assert y.tolist() == [3.0, 5.0]
    assert not y.is_pending
    assert len(runs) == 1


def test_a_result_is_computed_once(runs) -> None:
    y = gh.array([1.0, 2.0]).exp()
    y.sync()
    y.sync()
    z = y + 1
    z.numpy()
    assert [labels(g) for g in runs] == [["exp"], ["add"]]


def test_what_the_user_holds_on_the_way_is_kept(runs) -> None:
    held = gh.array([1.0, 2.0]).exp()
    total = (held * 2).sum()
    total.item()
    assert not held.is_pending
    held.numpy()
    assert len(runs) == 1


def test_sync_all_runs_everything_in_one_graph(runs) -> None:
    x = gh.array([1.0, 2.0])
    a, b = x + 1, x * 3
    gh.sync_all()
    assert len(runs) == 1
    assert (a.tolist(), b.tolist()) == ([2.0, 3.0], [3.0, 6.0])


def test_data_is_an_input_and_numbers_are_part_of_the_graph(runs) -> None:
    from glasshouse.tensor.structure import structure_key

    for data in ([1.0, 2.0], [3.0, 4.0]):
        (gh.array(data) * 2).numpy()
    (gh.array([1.0, 2.0]) * 3).numpy()
    first, second, third = (structure_key(g) for g in runs)
    assert first == second
    assert hash(first) == hash(second)
    assert first.digest() == second.digest()
    assert first != third


def test_dropped_work_is_freed_and_never_runs(runs) -> None:
    x = gh.array(np.zeros(4, np.float32))
    y = x + 1
    node = weakref.ref(y.value.node)
    gc.disable()
    try:
        del y
        assert node() is None  # by reference counts alone: large arrays must not wait for gc
    finally:
        gc.enable()
    gh.sync_all()
    assert runs == []


def test_executed_work_lets_go_of_its_operands() -> None:
    x = gh.array(np.zeros(4, np.float32))
    middle = weakref.ref((held := x + 1).value.node)
    y = held * 2
    del held
    y.sync()
    assert middle() is None


class Chain(nn.Module):
    """In a module, finding a node's origin does not walk the stack of whatever runs the tests."""

    def forward(self, x: gh.Tensor, length: int) -> gh.Tensor:
        for _ in range(length):
            x = x.relu()
        return x


@pytest.mark.parametrize("length", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_long_chain_of_ops_needs_no_stack(length: int) -> None:
    y = Chain()(gh.array([1.0]), length)
    assert y.item() == 1
    y = Chain()(gh.array([1.0]), length)
    del y  # freeing what never ran goes no deeper either


def test_the_data_given_out_cannot_be_written() -> None:
    array = gh.array([1.0, 2.0]).numpy()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 5


def test_from_numpy_shares_and_array_copies() -> None:
    data = np.ones(3, np.float32)
    shared, copied = gh.from_numpy(data), gh.array(data)
    data[0] = 7
    assert shared.tolist() == [7, 1, 1]
    assert copied.tolist() == [1, 1, 1]


def test_an_array_in_an_expression_is_copied() -> None:
    data = np.ones(3, np.float32)
    y = gh.array([0.0, 0.0, 0.0]) + data
    data[:] = 9
    assert y.tolist() == [1, 1, 1]


def test_dlpack_both_ways() -> None:
    x = gh.array([1.0, 2.0, 3.0]) * 2
    assert np.from_dlpack(x).tolist() == [2, 4, 6]
    back = gh.from_dlpack(np.arange(3.0, dtype=np.float32))
    assert (back + 1).tolist() == [1, 2, 3]
    shared = torch.from_dlpack(x)
    assert shared.tolist() == [2, 4, 6]
    assert gh.from_dlpack(torch.arange(3)).tolist() == [0, 1, 2]


def test_numpy_takes_tensors_and_leaves_arithmetic_to_them() -> None:
    x = gh.array([1.0, 2.0])
    assert np.asarray(x).tolist() == [1, 2]
    assert np.asarray(x, np.int32).dtype == np.int32
    assert isinstance(np.ones(2, np.float32) + x, gh.Tensor)
    assert isinstance(np.float32(2) * x, gh.Tensor)


def test_plain_numbers_are_float32_and_int64() -> None:
    assert gh.array(1.5).dtype is gh.float32
    assert gh.array([1, 2]).dtype is gh.int64
    assert gh.array(np.float64(1)).dtype is gh.float64
    assert gh.array(1.0, gh.bfloat16).dtype is gh.bfloat16
    assert gh.array(torch.ones(2, dtype=torch.bfloat16)).dtype is gh.bfloat16
    with pytest.raises(TypeMismatch, match="no element type") as caught:
        gh.array("text")
    assert __file__ in str(caught.value)


def test_bfloat16_is_rounded_and_given_out_as_float32() -> None:
    x = gh.array([1.0, 1.00390625], "bfloat16")  # the second lies between two bfloat16 numbers
    assert x.numpy().dtype == np.float32
    assert x.tolist() == [1.0, 1.0]


def test_mixed_types_promote_in_sight() -> None:
    mask = gh.array([1, 0], "int32")
    out = gh.array([0.5, 0.5]) + mask
    assert out.dtype is gh.float32
    assert out.tolist() == [1.5, 0.5]


def test_python_protocols() -> None:
    x = gh.array([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert float(x[0, 1]) == 2.0
    assert [10, 20, 30][gh.array(2)] == 30
    assert bool(x.sum() > 5)
    assert (x == 2.0).tolist() == [[False, True], [False, False]]
    assert x in {x}
    with pytest.raises(ShapeError, match="one element"):
        x.item()
    with pytest.raises(TypeMismatch, match="index"):
        [1, 2][gh.array(1.0)]


def test_tensors_are_pickled_with_their_data() -> None:
    x = gh.array([1.0, 2.0], requires_grad=True, name="w")
    back = pickle.loads(pickle.dumps(x * 1))
    assert back.tolist() == [1, 2]
    back = pickle.loads(pickle.dumps(x))
    assert back.requires_grad
    assert back.name == "w"


def test_creation() -> None:
    assert gh.zeros(2, 3).shape == gh.zeros((2, 3)).shape == (2, 3)
    assert gh.ones(2, dtype="int32").tolist() == [1, 1]
    assert gh.full((2,), 0.5).tolist() == [0.5, 0.5]
    assert gh.arange(3).tolist() == [0, 1, 2]
    assert gh.arange(1, 7, 2).tolist() == [1, 3, 5]
    assert gh.eye(2).tolist() == [[1, 0], [0, 1]]
    np.testing.assert_allclose(gh.linspace(0, 1, 5).numpy(), [0, 0.25, 0.5, 0.75, 1])


def test_random_numbers_repeat_with_the_seed_and_differ_without() -> None:
    gh.manual_seed(3)
    a, b = gh.randn(1000), gh.randn(1000)
    gh.manual_seed(3)
    again = gh.randn(1000)
    assert a.tolist() == again.tolist()
    assert a.tolist() != b.tolist()
    assert abs(a.numpy().mean()) < 0.15
    drawn = gh.randint(-2, 3, (500,)).numpy()
    assert set(drawn) == {-2, -1, 0, 1, 2}
    u = gh.rand(1000, low=2.0, high=3.0).numpy()
    assert u.min() >= 2
    assert u.max() < 3.0001


def test_threads_do_not_share_modes() -> None:
    w = gh.array([1.0], requires_grad=True)
    inside: list[bool] = []
    with gh.no_grad():
        thread = threading.Thread(target=lambda: inside.append((w * 2).requires_grad))
        thread.start()
        thread.join()
        assert not (w * 2).requires_grad
    assert inside == [True]


def test_assign_changes_the_handle_and_nothing_computed_from_it() -> None:
    x = gh.array([1.0, 2.0])
    y = x * 2
    x.assign(x + 10)
    assert x.tolist() == [11, 12]
    assert y.tolist() == [2, 4]
    with pytest.raises(ShapeError, match=r"float32\[2\] cannot hold float32\[3\]"):
        x.assign(gh.zeros(3))


def test_writing_to_a_part() -> None:
    x = gh.zeros(2, 3)
    before = x + 0
    x[1, :2] = gh.array([5.0, 6.0])
    x[0] = 1
    assert x.tolist() == [[1, 1, 1], [5, 6, 0]]
    assert before.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_gradients_flow_through_what_is_written() -> None:
    w = gh.array([1.0, 2.0], requires_grad=True)
    y = w * 3
    y[0] = w[1] * 10
    y.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [0, 13]
    with pytest.raises(GradientError, match=r"no_grad\(\)"):
        w[0] = 1
    with gh.no_grad():
        w[0] = 7
    assert w.tolist() == [7, 2]
    assert w.requires_grad


def test_a_thread_runs_what_it_made_itself() -> None:
    """Another one may be in the middle of recording."""
    made: list[gh.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(gh.array([1.0, 2.0]) * 2.0))
    thread.start()
    thread.join()
    mine = made[0] + 1.0
    gh.sync_all()
    assert not mine.is_pending
    assert made[0].is_pending
    assert made[0].tolist() == [2.0, 4.0]
