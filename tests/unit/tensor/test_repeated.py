"""Steps that are taken as a whole give what recorded ones give, whatever changes between them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.nn import functional as F
from glasshouse.tensor import optim
from glasshouse.tensor.execute import set_executor
from kept_graphs import Keeps

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _threads_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written in place beside a second thread: those that other tests left count not."""
    count, before = threading.active_count, threading.active_count()
    monkeypatch.setattr(threading, "active_count", lambda: count() - before + 1)


OPTIMISERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "adamw": lambda p: optim.AdamW(p, 0.01),
}


class Network(nn.Module):
    """Two layers with a norm between, whose statistics are written as it runs."""

    def __init__(self) -> None:
        self.one, self.norm, self.two = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        for number, parameter in enumerate(self.parameters()):
            data = np.random.default_rng(number).standard_normal(parameter.shape) * 0.3
            parameter.assign(gh.array(data.astype("f")))


def trained(make: Callable[[Any], optim.Optimizer]) -> list[Array]:
    """Everything that a loop with many surprises gives."""
    rng = np.random.default_rng(0)
    net = Network()
    parameters = list(net.parameters())
    optimiser = make(parameters)
    seen: list[Any] = []
    for turn in range(24):
        count = 4 if turn % 7 == 0 else 5
        x = gh.array(rng.standard_normal((count, 6)).astype("f"))
        y = gh.array(rng.integers(0, 3, count))
        with gh.no_grad() if turn == 12 else nullcontext():
            hidden = net.norm(net.one(x)).relu()
        if turn == 8:
            seen.append(hidden.sum().item())  # a value in the middle is read
        if turn == 10:
            hidden = hidden.detach()
        if turn == 11:
            optimiser.lr = 0.05
        out = net.two(hidden)
        loss = F.cross_entropy(out, y)
        if turn == 13:
            loss = loss * 2.0
        if turn == 14:
            seen.append(str(loss) != "")
        if turn == 15:
            with gh.no_grad():
                parameters[0].assign(parameters[0] * 0.9)
        if turn == 16:
            optimiser.groups[0].options["weight_decay"] = 0.3
        aside = x * 3.0 if turn == 17 else None  # waits, and has nothing to do with the step
        optimiser.step(loss)
        if aside is not None:
            seen.append(aside.numpy())
        seen += [loss.item(), out.numpy()]
    return [np.asarray(s) for s in (*seen, *(t.numpy() for t in net.state_dict().values()))]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_as_the_reference(keeps: Keeps, name: str) -> None:
    ours = trained(OPTIMISERS[name])
    assert keeps.whole >= 10
    set_executor("reference")
    theirs = trained(OPTIMISERS[name])
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_first_step_is_like_the_others(keeps: Keeps) -> None:
    """What parameters, statistics and moments begin with is no part of it."""
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    optimiser = optim.SGD(net.parameters(), 0.1, momentum=0.9)
    x, y = gh.array(np.ones((4, 6), "f")), gh.array(np.array([0, 1, 2, 0]))
    for _ in range(4):
        optimiser.step(F.cross_entropy(net(x), y))
    assert len(keeps.graphs) == 3  # of the module, of the optimiser, and the step
    assert keeps.whole >= 2


def test_a_class_of_ones_own_is_recorded_each_time(keeps: Keeps) -> None:
    class Counts(optim.SGD):
        """Halves its step in every other turn."""

        turn = 0

        def update(self, *given: Any) -> Any:
            self.turn += 1
            group, number, param, grad, common = given
            return super().update(
                group, number, param, grad * (0.5 if self.turn % 2 else 1.0), common
            )

    weight = gh.array([1.0, 2.0], requires_grad=True)
    optimiser = Counts([weight], 0.1)
    for _ in range(4):
        optimiser.step((weight * weight).sum())
    assert keeps.whole == 0
    wanted = np.array([1.0, 2.0], "f")
    for share in (0.5, 1.0, 0.5, 1.0):
        wanted = wanted - wanted * 2 * np.float32(share) * np.float32(0.1)
    np.testing.assert_allclose(weight.numpy(), wanted, rtol=1e-6)


def test_gradients_are_refused_as_before(keeps: Keeps) -> None:
    weight = gh.array([1.0], requires_grad=True)
    optimiser = optim.SGD([weight], 0.1)
    for _ in range(3):
        optimiser.step((weight * 2.0).sum())
    loss = (weight * 2.0).sum()
    optimiser.step(loss)
    with pytest.raises(gh.errors.GradientError, match="taken already"):
        optimiser.step(loss)
    assert keeps.whole == 3


def test_from_several_threads(keeps: Keeps) -> None:
    found: dict[int, Array] = {}

    def train(number: int) -> None:
        weight = gh.array(np.full(4, 1.0 + number, "f"), requires_grad=True)
        optimiser = optim.SGD([weight], 0.1)
        for _ in range(20):
            optimiser.step((weight * weight).sum())
        found[number] = weight.numpy()

    threads = [threading.Thread(target=train, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(3):
        np.testing.assert_allclose(found[number], (1.0 + number) * 0.8**20, rtol=1e-5)


def test_memory_of_old_values_is_used_again_unless_somebody_has_it(keeps: Keeps) -> None:
    given = np.ones((4, 4), np.float32)
    weight = gh.array(given, requires_grad=True)
    opt = optim.SGD([weight], 0.5)
    seen: list[tuple[Array, Array]] = []
    places = []
    for step in range(12):
        opt.step((weight * weight).sum() * 0.5)
        if step < 6:  # views of what the tensor held, and what they showed
            seen.append((weight.numpy(), weight.numpy().copy()))
        else:
            places.append(weight.numpy().ctypes.data)
    assert keeps.whole >= 10
    for view, then in seen:
        np.testing.assert_array_equal(view, then)
    np.testing.assert_array_equal(given, 1)
    np.testing.assert_allclose(weight.numpy(), 0.5**12, rtol=1e-6)
    assert len(set(places[1:])) == 1  # in place


Holds = Callable[[Any, Any, Any], Callable[[], Any]]
HOLDERS: dict[str, tuple[int, Holds]] = {
    "nobody": (1, lambda weight, product, loss: lambda: None),
    "a view": (0, lambda weight, product, loss: weight.numpy),
    "the same data": (0, lambda weight, product, loss: weight.detach().numpy),
    "a value that waits": (0, lambda weight, product, loss: (weight.detach() * 3.0).numpy),
    "a gradient's path": (0, lambda weight, product, loss: lambda: gradient(product, weight)),
    "the loss alone": (1, lambda weight, product, loss: loss.numpy),
}


def gradient(product: Any, weight: Any) -> Any:
    weight.grad = None
    product.sum().backward()
    found, weight.grad = weight.grad.numpy(), None
    return found


@pytest.mark.parametrize("who", HOLDERS)
def test_old_values_stay_for_who_may_ask(keeps: Keeps, who: str) -> None:
    in_place, holder = HOLDERS[who]

    def losses() -> tuple[list[Any], list[int]]:
        weight = gh.array(np.linspace(-1, 1, 6, dtype="f"), requires_grad=True)
        opt = optim.SGD([weight], 0.1)
        kept: list[Callable[[], Any]] = []
        found: list[Any] = []
        places = []
        for _ in range(8):
            product = weight * weight * 0.5
            loss = product.sum()
            kept.append(holder(weight, product, loss))
            del product
            opt.step(loss)
            places.append(int(weight.value.node.results[0].ctypes.data))  # type: ignore[index]  # set
            if len(kept) > 1:
                found.append(kept.pop(0)())  # of the step before: its weight is an old one
        return [*found, weight.numpy()], places

    ours, places = losses()
    assert (len(set(places[3:])) == 1) == bool(in_place)
    set_executor("reference")
    for a, b in zip(ours, losses()[0], strict=True):
        if a is not None:
            np.testing.assert_array_equal(a, b)


def test_parameters_and_moments_are_all_written_over(keeps: Keeps) -> None:
    """The last that a step reads, too: no variable on the way may hold it."""
    weight = gh.array([1.0, 2.0], requires_grad=True)
    optimiser = optim.Adam([weight], 0.1)
    places = []
    for _ in range(5):
        optimiser.step((weight * weight).sum())
        held = [t.value.node.results[0] for t in optimiser._tensors()]
        places.append([int(a.ctypes.data) for a in held])
        del held
    assert keeps.whole >= 3
    assert places[2] == places[3] == places[4]


def test_nothing_is_written_over_beside_other_threads(keeps: Keeps) -> None:
    weight = gh.array(np.ones(4, "f"), requires_grad=True)
    opt = optim.SGD([weight], 0.5)
    may_end = threading.Event()
    other = threading.Thread(target=may_end.wait)
    other.start()
    places = []
    for _ in range(8):
        opt.step((weight * weight).sum())
        places.append(weight.numpy().ctypes.data)
    may_end.set()
    other.join()
    assert len(set(places[3:])) == 2  # two arrays take turns
