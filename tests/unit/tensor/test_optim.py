"""Optimisers, against PyTorch's."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse import nn, optim
from glasshouse.errors import GradientError, TypeMismatch
from glasshouse.tensor.execute import reference
from glasshouse.tensor.structure import structure_key

CASES = {
    "sgd": ("SGD", {"lr": 0.1}),
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1}),
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {"lr": 0.1}),
    "adam decay": ("Adam", {"lr": 0.1, "weight_decay": 0.05, "betas": (0.8, 0.99)}),
    "adamw": ("AdamW", {"lr": 0.1, "eps": 1e-6}),
}
RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((5, 4), np.float32)
DATA = RNG.standard_normal((3, 5), np.float32)


@pytest.mark.parametrize("style", ["backward", "loss"])
@pytest.mark.parametrize("case", CASES)
def test_as_torch(case: str, style: str) -> None:
    name, options = CASES[case]
    ours, theirs = nn.Parameter(WEIGHT), torch.nn.Parameter(torch.tensor(WEIGHT))
    opt = getattr(optim, name)([ours], **options)
    reference = getattr(torch.optim, name)([theirs], **options)
    for number in range(5):
        loss = ((gh.array(DATA) @ ours) ** 2).mean()
        if style == "loss":
            opt.step(loss)
        else:
            opt.zero_grad()
            loss.backward()
            opt.step()
        wanted = ((torch.tensor(DATA) @ theirs) ** 2).mean()
        reference.zero_grad()
        wanted.backward()
        reference.step()
        np.testing.assert_allclose(loss.item(), wanted.item(), 1e-5)
        if number == 2:
            opt.lr = 0.03
            reference.param_groups[0]["lr"] = 0.03
    error = np.abs(ours.numpy() - theirs.detach().numpy()).max() / np.abs(WEIGHT).max()
    assert error < 1e-6


def test_groups_have_their_own_options() -> None:
    a, b = nn.Parameter(np.ones(2, np.float32)), nn.Parameter(np.ones(2, np.float32))
    opt = optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
    opt.step((a + b).sum())
    np.testing.assert_allclose(a.numpy(), 0.9, 1e-6)
    np.testing.assert_allclose(b.numpy(), 0.5, 1e-6)


def test_a_loss_of_many_elements_counts_as_its_sum() -> None:
    w = nn.Parameter(np.ones(2, np.float32))
    optim.SGD([w], lr=0.1).step(w * gh.array([1.0, 2.0]))
    np.testing.assert_allclose(w.numpy(), [0.9, 0.8], 1e-6)


def test_parameters_without_gradient_stay() -> None:
    used, unused = nn.Parameter(np.ones(1, np.float32)), nn.Parameter(np.ones(1, np.float32))
    optim.SGD([used, unused], lr=0.1, weight_decay=0.5).step((used * 2).sum())
    assert unused.tolist() == [1]
    assert used.tolist() != [1]


def test_every_step_runs_one_graph_and_they_are_the_same() -> None:
    """What a compiler makes for the first step serves all."""
    seen = []

    def spy(graph, inputs, report=None):
        seen.append(structure_key(graph))
        return reference(graph, inputs, report)

    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.1), nn.Linear(4, 1))
    opt = optim.AdamW(model.parameters(), lr=0.1)
    gh.sync_all()
    before = gh.set_executor(spy)
    try:
        for number in range(4):
            x = gh.array(RNG.standard_normal((6, 3), np.float32))
            loss = model(x).square().mean()
            opt.lr = 0.1 / (number + 1)
            opt.step(loss)
            loss.item()
    finally:
        gh.set_executor(before)
    assert len(seen) == 4
    assert len(set(seen)) == 1


def test_a_loop_keeps_nothing_of_past_steps() -> None:
    w = nn.Parameter(np.ones(2, np.float32))
    opt = optim.Adam([w])
    nodes = []
    gc.disable()
    try:
        for _ in range(3):
            loss = (w * w).sum()
            nodes.append(weakref.ref(loss.value.node))
            opt.step(loss)
        del loss
        assert [n() for n in nodes] == [None] * 3
    finally:
        gc.enable()


def test_nodes_belong_to_the_optimiser() -> None:
    layer = nn.Linear(2, 1)
    sgd = optim.SGD(layer.parameters(), lr=0.1)

    def step(x):
        sgd.step(layer(x).sum())
        return x

    graph = gh.trace(step, gh.spec((1, 2)))
    made = [n for n in graph.nodes if n.inputs and n.origin.label("phase") == "optimiser"]
    assert made
    for node in made:
        scope = node.origin.source.scopes[-1]
        assert (scope.name, scope.cls) == ("sgd", "SGD")
        assert node.origin.source.frames[-1].function == "step"


def test_mistakes() -> None:
    w = nn.Parameter(np.ones(1, np.float32))
    with pytest.raises(TypeMismatch, match="empty"):
        optim.SGD([])
    with pytest.raises(TypeMismatch, match="needs no gradient"):
        optim.SGD([gh.ones(1)])
    with pytest.raises(TypeMismatch, match="unknown options"):
        optim.SGD([{"params": [w], "rate": 1}])
    with pytest.raises(TypeMismatch, match="Nesterov"):
        optim.SGD([w], nesterov=True)
    with pytest.raises(GradientError, match="gradient"):
        optim.SGD([w]).step(gh.ones(1))


def test_nothing_of_a_step_waits_for_the_garbage_collector() -> None:
    """What a frame holds in a cycle would be a result, or not, as the collector goes."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    opt = optim.SGD(model.parameters(), lr=0.1)
    held = []

    def spy(graph, inputs, report=None):
        held.append(len(graph.outputs))
        return reference(graph, inputs, report)

    gh.sync_all()
    before = gh.set_executor(spy)
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            x = gh.array(np.ones((6, 3), np.float32))
            loss = model(x).square().mean()
            opt.step(loss)
    finally:
        gc.enable()
        gh.set_executor(before)
    changed = len(list(model.parameters())) + 3  # the norm's statistics and count, and the loss
    assert held[-1] <= changed + 1
