"""A call that is one node gives what its nodes give, wherever it is looked at from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.ir.printer import print_graph
from glasshouse.nn import functional as F
from glasshouse.tensor.calls import recorded
from glasshouse.tensor.execute import set_executor
from glasshouse.tensor.pending import Extraction, pending_nodes
from glasshouse.tensor.state import STATE
from glasshouse.tensor.tensor import Tensor

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_the_reference() -> Iterator[None]:
    before = set_executor("reference")
    yield
    set_executor(before)


def drawn(*shape: int) -> Tensor:
    return gh.array(RNG.standard_normal(shape).astype("f"))


def is_one_node(tensor: Any) -> bool:
    return tensor.value.node.stands_for is not None


def nodes_of(tensor: Any) -> str:
    """The nodes that a tensor is computed by, with their places in the user's code."""
    nodes = [n for n in pending_nodes([tensor.value]) if n.results is None]
    numbers = {n.id: i for i, n in enumerate(nodes)}
    return "\n".join(
        f"{n.op.name} {[numbers.get(v.node.id, -1) for v in n.inputs]} {dict(n.attrs)} {n.types} "
        f"{n.needs_grad} {n.origin.source}"
        for n in nodes
    )


def three(call: Callable[[], Any]) -> tuple[Any, Any, Any]:
    """The first two are recorded, the third is one node."""
    made = [call() for _ in range(3)]
    return made[0], made[1], made[2]


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "loss": F.cross_entropy,
    "smooth loss": lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, reduction="sum"),
    "module": lambda x, y: F.cross_entropy(LAYERS(x), y),
    "plain ops behind it": lambda x, y: (LAYERS(x) * 2.0 + x).sum() + F.nll_loss(x, y),
}
LAYERS = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.LayerNorm(7), nn.Linear(7, 5))


@pytest.mark.parametrize("case", CASES)
def test_nodes_are_those_that_were_recorded(case: str) -> None:
    x, y = drawn(4, 5).requires_grad_(), gh.array(RNG.integers(0, 5, 4))
    plain, _, short = three(lambda: CASES[case](x, y))
    closed = [n for n in pending_nodes([short.value], closed=True) if n.results is None]
    assert any(n.stands_for is not None for n in closed)
    assert nodes_of(short) == nodes_of(plain)
    assert sorted(n.id for n in pending_nodes([short.value])) == [
        n.id for n in pending_nodes([short.value])
    ]
    np.testing.assert_array_equal(short.numpy(), plain.numpy())


@pytest.mark.parametrize("how", ["backward", "gradients", "grad"])
def test_gradients(how: str) -> None:
    x, y = drawn(4, 5).requires_grad_(), gh.array(RNG.integers(0, 5, 4))

    def found() -> Any:
        if how == "grad":
            return gh.grad(lambda a: F.cross_entropy(LAYERS(a), y))(x)
        loss = F.cross_entropy(LAYERS(x), y)
        if how == "gradients":
            return gh.gradients(loss, [x])[0]
        x.grad = None
        loss.backward()
        return x.grad

    first, *others = [found().numpy() for _ in range(4)]
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_what_makes_a_difference_is_another_call() -> None:
    x, z, wide = drawn(3, 4), drawn(3, 4), drawn(6, 4)
    leaf = x.detach().requires_grad_()
    calls: list[tuple[Any, Any, dict[str, Any]]] = [
        (x, z, {}), (x, x, {}), (x, z, {"beta": 0.0}), (x, z, {"reduction": "sum"}),
        (wide, wide * 2.0, {}), (leaf, z, {}),
    ]  # fmt: skip
    wanted = [F.smooth_l1_loss(a, b, **options) for a, b, options in calls]
    for turn in range(4):
        made = [F.smooth_l1_loss(a, b, **options) for a, b, options in calls]
        assert [is_one_node(m) for m in made] == [turn > 1, False, *[turn > 1] * 4]
        for number, (ours, first) in enumerate(zip(made, wanted, strict=True)):
            assert ours.requires_grad == (number == 5)
            np.testing.assert_array_equal(ours.numpy(), first.numpy())
    assert wanted[1].item() == 0.0 != wanted[0].item()


def test_options_of_other_types_are_others() -> None:
    @recorded
    def scaled(x: Any, factor: Any) -> Any:
        return x * factor + 0

    x = gh.array(np.array([1, 2]))
    for factor in (1, 1.0, True, 1, 1.0, True, 1, 1.0, True):
        made = scaled(x, factor)
        assert made.dtype.name == ("float32" if isinstance(factor, float) else "int64"), factor
    for factor in (0.0, -0.0) * 4:
        given = scaled(gh.array([1.0]), factor).numpy()
        assert np.signbit(given[0]) == (np.signbit(factor) and np.signbit(given[0]))
    assert scaled(x, [1, 2]).tolist() == [1, 4]  # no key, no harm


def test_a_changed_module_is_recorded_anew() -> None:
    layer = nn.Linear(4, 2)
    x = drawn(3, 4)
    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: layer.weight.assign(layer.weight * 2.0),
        lambda: setattr(layer, "bias", None),
        lambda: setattr(layer, "weight", nn.Parameter(drawn(5, 4))),
        lambda: layer.register_parameter("bias", nn.Parameter(drawn(5))),
        lambda: setattr(layer, "specialization", "relu"),
        lambda: layer.requires_grad_(False),
        lambda: layer.requires_grad_(True),
        lambda: setattr(layer, "forward", lambda given: given * 0.0),
    ]
    seen: list[Any] = []
    for change in changes:
        change()
        for turn in range(4):
            made = layer(x)  # one line: one place for all of them
            wanted = layer.forward(x)
            assert turn < 2 or is_one_node(made) == (len(seen) < 8)
            assert made.requires_grad == wanted.requires_grad
            np.testing.assert_array_equal(made.numpy(), wanted.numpy())
        seen.append((made.numpy().tobytes(), made.requires_grad))
    assert len(set(seen)) == len(changes) - 1  # the gradient was taken away and given back


def test_a_changed_layer_inside_a_sequence() -> None:
    layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    x = drawn(3, 4)
    inner = layers[0]
    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: setattr(inner, "bias", None),
        lambda: layers.add_module("3", nn.Tanh()),
        lambda: layers[2].register_parameter("bias", None),
    ]
    seen = set()
    for change in changes:
        change()
        for turn in range(4):
            made = layers(x)
            wanted: Any = x
            for layer in layers.children():
                wanted = layer.forward(wanted)
            assert is_one_node(made) == (turn > 1)
            np.testing.assert_array_equal(made.numpy(), wanted.numpy())
        seen.add(made.numpy().tobytes())
    assert len(seen) == len(changes)


def test_classes_of_ones_own_run_every_time() -> None:
    class Counts(nn.Linear):
        calls = 0

        def forward(self, x: Any, *operands: Any) -> Any:
            type(self).calls += 1
            return super().forward(x, *operands)

    layer = nn.Sequential(Counts(3, 3), nn.ReLU())
    for _ in range(5):
        layer(drawn(2, 3))
    assert Counts.calls == 5


def test_random_layers_draw_anew() -> None:
    x = gh.ones(64)
    drops = nn.Sequential(nn.ReLU(), nn.Dropout(0.5))
    seen = {drops(x).numpy().tobytes() for _ in range(6)}
    assert len(seen) == 6


def test_the_value_that_held_at_the_call_counts() -> None:
    layer = nn.Linear(2, 2, bias=False)
    x = drawn(1, 2)
    for _ in range(3):
        short = layer(x)
    wanted = x.numpy() @ layer.weight.numpy().T
    layer.weight.assign(layer.weight * 3.0)
    np.testing.assert_allclose(short.numpy(), wanted, rtol=1e-6)


def test_a_capture_sees_the_nodes() -> None:
    x, y = drawn(4, 5), gh.array(RNG.integers(0, 5, 4))
    short = three(lambda: LAYERS(x))[2]
    assert is_one_node(short)

    def step(a: Any, b: Any) -> Any:
        return F.cross_entropy(LAYERS(a), b) + short.sum()

    texts = {print_graph(gh.trace(step, x, y)) for _ in range(4)}
    assert len(texts) == 1
    assert "LogSoftmax" in texts.pop()


def test_threads_open_one_node_once() -> None:
    x, y = drawn(4, 5).requires_grad_(), gh.array(RNG.integers(0, 5, 4))

    wanted = F.cross_entropy(x, y).item()
    for turn in range(20):
        loss, seen = F.cross_entropy(x, y), []
        assert is_one_node(loss) == (turn > 1)
        barrier = threading.Barrier(4)

        def read(loss: Any = loss, seen: list[Any] = seen, barrier: Any = barrier) -> None:
            barrier.wait()
            nodes = pending_nodes([loss.value])
            seen.append(Extraction([n for n in nodes if n.results is None]).graph)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({print_graph(graph) for graph in seen}) == 1
        assert loss.item() == wanted


def test_nothing_is_held_that_was_let_go() -> None:
    import weakref

    layer = nn.Linear(3, 3)
    for _ in range(4):
        made = layer(drawn(2, 3))
    made.sync()
    gone = weakref.ref(layer.weight)
    del layer, made
    assert gone() is None


def test_no_call_is_one_node_while_another_is_recorded() -> None:
    assert not STATE.own.recording

    @recorded
    def fails(x: Any) -> Any:
        raise ValueError(str(x.shape))

    for _ in range(3):
        with pytest.raises(ValueError, match="3"):
            fails(drawn(3))
        assert not STATE.own.recording
