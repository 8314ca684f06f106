"""Steps that are bound to their memory give what recorded ones give, whatever a loop does."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.nn import functional as F
from glasshouse.tensor import optim, step_pattern
from glasshouse.tensor.execute import set_executor
from kept_graphs import Keeps

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _threads_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written in place beside a second thread: those that other tests left count not."""
    count, before = threading.active_count, threading.active_count()
    monkeypatch.setattr(threading, "active_count", lambda: count() - before + 1)


Surprise = Callable[["Loop"], Iterator[None]]


class Loop:
    """A model, its optimiser and what was seen of them.

    A surprise yields where the step of its turn is to be taken, at the same line as all others:
    another line is another step.
    """

    def __init__(self, way: str, make: Callable[[Any], optim.Optimizer]) -> None:
        self.rng = np.random.default_rng(0)
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        for number, parameter in enumerate(self.net.parameters()):
            data = np.random.default_rng(number).standard_normal(parameter.shape) * 0.3
            parameter.assign(gh.array(data.astype("f")))
        self.opt = make(self.net.parameters())
        self.way = way
        self.seen: list[Any] = []
        self.count = 4
        self.turn = 0
        self.x: Any = None  # in place of new data
        self.held: list[Any] | None = None  # where to keep what lies between

    def loss(self) -> Any:
        x = gh.array(self.rng.standard_normal((self.count, 6)).astype("f"))
        x, self.x = x if self.x is None else self.x, None
        y = gh.array(self.rng.integers(0, 3, self.count))
        out = self.net(x)
        if self.held is not None:
            self.held.append(out)
        return F.cross_entropy(out, y)

    def update(self, loss: Any) -> None:
        if self.way == "step(loss)":
            self.opt.step(loss)
        else:
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()

    def plain(self) -> None:
        loss = self.loss()
        self.update(loss)
        self.seen.append(loss.item())

    def run(self, surprise: Surprise | None = None, turns: int = 14) -> list[Array]:
        for self.turn in range(turns):
            around: Any = None
            if surprise is not None and self.turn >= 8 and not self.turn % 4:  # bound by then
                around = surprise(self)
            if around is None or next(around, "no step") != "no step":
                self.plain()
            for _ in around or ():
                pass
        state = [t.numpy() for t in self.opt._tensors()]
        return [np.array(s) for s in (*self.seen, *state)]


def smaller_batch(loop: Loop) -> Iterator[None]:
    loop.count = 3
    yield
    loop.count = 4


def other_rate(loop: Loop) -> Iterator[None]:
    loop.opt.lr = 0.1 / (1 + loop.turn)
    yield


def rate_yet_to_be_computed(loop: Loop) -> Iterator[None]:
    loop.opt.groups[0].rate.assign(gh.array(0.05, "float64") * 0.5)
    yield


def other_options(loop: Loop) -> Iterator[None]:
    loop.opt.groups[0].options["weight_decay"] = 0.01 * loop.turn
    yield


def regularised_by_moments(loop: Loop) -> Iterator[None]:
    """Gradients that are asked for after a step whose loss reads what the step changes."""
    first, moment = loop.opt.groups[0].params[0], loop.opt.groups[0].state["exp_avg"][0]
    for _ in range(4):
        loop.update(loop.loss() + (first * moment).sum())
        loop.seen.append(0 if first.grad is None else first.grad.numpy())
    yield from ()


def a_branch(loop: Loop) -> Iterator[None]:
    loop.update(loop.loss() + sum((p * p).sum() for p in loop.opt.groups[0].params) * 0.01)
    yield from ()


def gradients_read_between(loop: Loop) -> Iterator[None]:
    loss = loop.loss()
    loop.opt.zero_grad()
    loss.backward()
    first = loop.opt.groups[0].params[0]
    loop.seen.append(first.grad.numpy())
    first.grad = first.grad * 0.5
    loop.opt.step()
    yield from ()


def gradients_read_after(loop: Loop) -> Iterator[None]:
    yield
    for parameter in loop.opt.groups[0].params:
        loop.seen.append(0 if parameter.grad is None else parameter.grad.numpy())


def assigned_by_hand(loop: Loop) -> Iterator[None]:
    for parameter in loop.opt.groups[0].params[:2]:
        parameter.assign(parameter.detach().clip(-0.2, 0.2))
    yield


def loaded(loop: Loop) -> Iterator[None]:
    state = {name: t.numpy() * np.float32(0.5) for name, t in loop.net.state_dict().items()}
    loop.net.load_state_dict(state)
    yield


def evaluated_between(loop: Loop) -> Iterator[None]:
    with gh.no_grad():
        loop.seen.append(loop.loss().item())
    loop.seen.append(loop.loss().item())  # of a graph that is then let go
    yield


def held_output(loop: Loop) -> Iterator[None]:
    loop.held = []
    yield
    loop.seen.append(loop.held[0].numpy())
    loop.held = None


def waiting_beside(loop: Loop) -> Iterator[None]:
    aside = loop.opt.groups[0].params[0].detach() * 2.0
    yield
    loop.seen.append(aside.numpy())


def views_stay(loop: Loop) -> Iterator[None]:
    views = [p.numpy() for p in loop.opt.groups[0].params]
    then = [v.copy() for v in views]
    yield
    for view, copied in zip(views, then, strict=True):
        np.testing.assert_array_equal(view, copied)


def an_exception(loop: Loop) -> Iterator[None]:
    loss = loop.loss()
    with pytest.raises(ZeroDivisionError):
        loop.update(loss * (1 / 0))
    with pytest.raises(gh.errors.GlasshouseError):
        loop.net(gh.array(np.ones((4, 5), "f")))
    yield


def frozen(loop: Loop) -> Iterator[None]:
    with gh.no_grad():
        hidden = loop.net[0](gh.array(np.ones((4, 6), "f")))
    loop.update(F.cross_entropy(loop.net[2](hidden), gh.array(np.zeros(4, "i8"))))
    yield from ()


def another_parameter(loop: Loop) -> Iterator[None]:
    group = loop.opt.groups[0]
    new = nn.Parameter(gh.array(group.params[1].numpy() * np.float32(0.5)))
    loop.net[0].bias = new
    group.params[1] = new
    yield


def a_copy_goes_its_own_way(loop: Loop) -> Iterator[None]:
    other = copy.deepcopy(loop.opt)
    before = [p.numpy().copy() for p in loop.opt.groups[0].params]
    for _ in range(4):
        other.step(sum((p * p).sum() for p in other.groups[0].params))
    for parameter, then in zip(loop.opt.groups[0].params, before, strict=True):
        np.testing.assert_array_equal(parameter.numpy(), then)
    loop.seen += [p.numpy() for p in other.groups[0].params]
    yield


def data_of_a_parameter(loop: Loop) -> Iterator[None]:
    weight = loop.opt.groups[0].params[0]  # 8 x 6
    loop.x = x = gh.from_numpy(weight.numpy()[:4])
    yield
    loop.seen.append(x.numpy())


def moments_are_read(loop: Loop) -> Iterator[None]:
    held = [t for kept in loop.opt.groups[0].state.values() for t in kept]
    views = [(t.numpy(), t.numpy().copy()) for t in held]
    yield
    for view, then in views:
        np.testing.assert_array_equal(view, then)


SURPRISES = (
    smaller_batch, other_rate, rate_yet_to_be_computed, other_options, regularised_by_moments,
    a_branch, gradients_read_between, gradients_read_after, assigned_by_hand, loaded,
    evaluated_between, held_output, waiting_beside, views_stay, an_exception, frozen,
    another_parameter, a_copy_goes_its_own_way, data_of_a_parameter, moments_are_read,
)  # fmt: skip


@pytest.mark.parametrize("way", ["step(loss)", "backward"])
@pytest.mark.parametrize("surprise", SURPRISES, ids=lambda f: f.__name__)
def test_as_the_reference(keeps: Keeps, surprise: Surprise, way: str) -> None:
    ours = Loop(way, lambda p: optim.Adam(p, 0.1)).run(surprise)
    assert keeps.bound_runs >= 3, "before the first surprise at least"
    set_executor("reference")
    theirs = Loop(way, lambda p: optim.Adam(p, 0.1)).run(surprise)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("way", ["step(loss)", "backward"])
def test_two_models_in_turns(keeps: Keeps, way: str) -> None:
    """They have the same structure, so one compiled step serves both."""

    def both() -> list[Array]:
        loops = [Loop(way, lambda p: optim.SGD(p, 0.1)) for _ in range(2)]
        for _ in range(10):
            for loop in (*loops, loops[1]):
                loop.plain()
        return [np.array(s) for loop in loops for s in (*loop.seen, loop.net[0].weight.numpy())]

    ours = both()
    assert keeps.bound_runs >= 15
    set_executor("reference")
    for a, b in zip(ours, both(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_step_that_fails_is_taken_the_next_time(keeps: Keeps) -> None:
    loop = Loop("step(loss)", lambda p: optim.SGD(p, 0.1))
    loop.run()
    before = [p.numpy().copy() for p in loop.opt.groups[0].params]
    run_compiled = keeps.run_compiled

    def fails(*_: Any) -> Any:
        raise gh.errors.ExecutionError("an index out of range")

    keeps.run_compiled = fails  # type: ignore[method-assign]  # put back below
    with pytest.raises(gh.errors.ExecutionError):
        loop.plain()
    keeps.run_compiled = run_compiled  # type: ignore[method-assign]  # put back below
    for parameter, then in zip(loop.opt.groups[0].params, before, strict=True):
        np.testing.assert_array_equal(parameter.numpy(), then)
    runs = keeps.bound_runs
    for _ in range(4):
        loop.plain()
    assert keeps.bound_runs > runs
    assert loop.net[0].weight.numpy()[0, 0] != before[0][0, 0]


@pytest.mark.parametrize("way", ["step(loss)", "backward"])
def test_memory_is_one_set_in_place_and_two_behind_backward(keeps: Keeps, way: str) -> None:
    """Two of parameters, that is: who asks for gradients of the old ones needs no old moments."""
    loop = Loop(way, lambda p: optim.Adam(p, 0.1))
    places: list[set[int]] = [set() for _ in loop.opt._tensors()]
    for turn in range(16):
        loop.plain()
        for tensor, met in zip(loop.opt._tensors(), places, strict=True):
            if turn >= 8:
                met.add(tensor.value.node.results[0].ctypes.data)  # type: ignore[index]  # is there
    assert keeps.bound_runs >= 8
    parameters = len(loop.opt.groups[0].params)
    assert {len(met) for met in places[:parameters]} == {1 if way == "step(loss)" else 2}
    assert {len(met) for met in places[parameters:]} == {1}


def test_a_reader_in_another_thread_sees_whole_values(keeps: Keeps) -> None:
    """Beside another thread nothing is written over: what it holds stays as it was."""
    weight = gh.array(np.ones(64, "f"), requires_grad=True)
    opt = optim.SGD([weight], 0.25)
    wrong: list[Array] = []
    may_end = threading.Event()

    def read() -> None:
        while not may_end.is_set():
            seen = weight.numpy()
            if len(set(seen.tolist())) != 1:
                wrong.append(seen)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(60):
        opt.step((weight * weight).sum())
    may_end.set()
    reader.join()
    assert not wrong
    np.testing.assert_array_equal(weight.numpy(), np.full(64, 0.5**60, "f"))


@pytest.mark.usefixtures("keeps")
def test_layers_know_both_sets_of_values_behind_backward() -> None:
    """Two sets of parameters take turns there: a layer that knew the last one alone made a key of
    its operands in every step."""
    loop = Loop("backward", lambda p: optim.SGD(p, lr=0.1))
    known: set[int] = set()
    for turn in range(14):
        loop.plain()
        if turn >= 9:
            known.add(id(loop.net._calls[None].last))
    assert loop.opt._steps._bound is not None
    assert len(known) == 1


@pytest.mark.usefixtures("keeps")
def test_a_step_that_is_bound_again_is_not_written_again() -> None:
    loop = Loop("step(loss)", lambda p: optim.SGD(p, lr=0.1))
    bound, held, written = set(), [], 0
    for turn in range(24):
        loop.plain()
        bound.add(id(loop.opt._steps._bound))
        if turn == 10:
            written = step_pattern._written.cache_info().misses
            held = [p.numpy() for p in loop.net.parameters()]  # nothing may be written over these
        elif turn == 12:
            held.clear()
    assert len(bound) >= 3, "None, then bound, then bound anew"
    assert step_pattern._written.cache_info().misses == written > 0
