"""Gradients are recorded when they are read; what lies between is as if they had been before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.tensor import optim
from glasshouse.tensor.execute import reference
from kept_graphs import Keeps

Array = np.ndarray[Any, Any]
X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
W, V = (np.random.default_rng(i).standard_normal((4, 4)).astype(np.float32) for i in (1, 2))


class Side:
    """Two weights, a loss and an optimiser, of PyTorch or ours."""

    def __init__(self, ours: bool) -> None:
        self.ours = ours
        make = gh.array if ours else torch.tensor
        self.x: Any = make(X)
        self.w, self.v = (make(a, requires_grad=True) for a in (W, V))
        lib: Any = optim if ours else torch.optim
        self.opt = lib.Adam([self.w, self.v], 0.1)

    def loss(self) -> Any:
        return ((self.x @ self.w).tanh() @ self.v).sum()

    def state(self) -> list[Array]:
        found = [self.w, self.v, self.w.grad, self.v.grad]
        return [np.zeros(0) if t is None else self._array(t) for t in found]

    def _array(self, tensor: Any) -> Array:
        return np.array(tensor.numpy() if self.ours else tensor.detach().numpy())


def _plain(s: Side) -> None:
    s.opt.zero_grad()
    s.loss().backward()
    s.opt.step()


def _accumulated(s: Side) -> None:
    s.opt.zero_grad()
    s.loss().backward()
    (s.loss() * 2).backward()
    s.opt.step()


def _never_zeroed(s: Side) -> None:
    s.loss().backward()
    s.opt.step()


def _loss_read_between(s: Side) -> None:
    s.opt.zero_grad()
    loss = s.loss()
    loss.backward()
    assert np.isfinite(float(loss.item()))
    s.opt.step()


def _scaled(s: Side) -> None:
    s.opt.zero_grad()
    s.loss().backward()
    s.w.grad = s.w.grad * 0.5
    s.opt.step()


def _dropped(s: Side) -> None:
    s.loss().backward()
    s.opt.zero_grad()
    s.opt.step()


def _part_dropped(s: Side) -> None:
    s.opt.zero_grad()
    s.loss().backward()
    s.v.grad = None
    s.opt.step()


def _stepped_twice(s: Side) -> None:
    s.opt.zero_grad()
    s.loss().backward()
    s.opt.step()
    s.opt.step()


LOOPS = (_plain, _accumulated, _never_zeroed, _loss_read_between, _scaled, _dropped, _part_dropped,
         _stepped_twice)  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__.strip("_"))
@pytest.mark.parametrize("read", [True, False], ids=["read", "unread"])
def test_loops_train_as_pytorch_does(
    loop: Callable[[Side], None], read: bool, keeps: Keeps
) -> None:
    ours, theirs = Side(True), Side(False)
    for _ in range(4):
        for side in (ours, theirs):
            loop(side)
        if read:  # gradients after a step are those of the step
            for a, b in zip(ours.state(), theirs.state(), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    for a, b in zip(ours.state(), theirs.state(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_backward_and_step_are_taken_as_one(keeps: Keeps) -> None:
    side = Side(True)
    for _ in range(4):
        _plain(side)
    assert keeps.whole == 2  # at the first step moments were yet to be computed, then it was kept


def test_leaves_of_others_get_their_gradients(keeps: Keeps) -> None:
    for _ in range(3):
        w, v = (gh.array(a, requires_grad=True) for a in (W, V))
        opt = optim.SGD([w], 0.1)
        (gh.array(X) @ w @ v).sum().backward()
        opt.step()
        assert v.grad is not None
        expected = (X @ W).T @ np.ones((8, 4), np.float32)
        np.testing.assert_allclose(v.grad.numpy(), expected, rtol=1e-4)


def test_another_thread_reads_them() -> None:
    w = gh.array(W, requires_grad=True)
    (gh.array(X) @ w).sum().backward()
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(w.grad))
    thread.start()
    thread.join()
    expected = np.repeat(X.sum(0)[:, None], 4, 1)
    np.testing.assert_allclose(seen[0].numpy(), expected, rtol=1e-5)


def test_a_loss_is_taken_once(keeps: Keeps) -> None:
    w = gh.array(W, requires_grad=True)
    loss = (gh.array(X) @ w).sum()
    loss.backward()
    with pytest.raises(gh.errors.GradientError, match="taken already"):
        loss.backward()


def test_a_parameter_that_was_assigned_between(keeps: Keeps) -> None:
    for _ in range(3):
        w = gh.array(W, requires_grad=True)
        opt = optim.SGD([w], 0.1)
        (gh.array(X) @ w).tanh().sum().backward()
        w.assign(V)
        opt.step()
        there = torch.tensor(W, requires_grad=True)
        (torch.tensor(X) @ there).tanh().sum().backward()
        assert there.grad is not None
        np.testing.assert_allclose(w.numpy(), V - 0.1 * there.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_capture_that_begins_meanwhile_leaves_gradients_alone() -> None:
    w = gh.array(W, requires_grad=True)
    (gh.array(X) @ w).sum().backward()
    graph = gh.trace(lambda x: x * w.grad, gh.spec((4, 4)))
    expected = np.repeat(X.sum(0)[:, None], 4, 1)
    np.testing.assert_allclose(reference(graph, [V])[0], V * expected, rtol=1e-5)
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-5)
