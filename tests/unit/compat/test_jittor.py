"""A script written for Jittor, with its import lines changed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glasshouse.compat.jittor as jt
from glasshouse.compat.jittor import Module
from glasshouse.compat.jittor.models import resnet
from glasshouse.errors import Unsupported


class Dense(Module):
    def __init__(self, inside, outside):
        self.w = (jt.random((inside, outside)) - 0.5) / inside**0.5
        self.b = jt.random((outside,)) - 0.5

    def execute(self, x):
        (n, m), k = x.shape, self.w.shape[-1]
        product = x.broadcast([n, m, k], dims=[2]) * self.w.broadcast([n, m, k], dims=[0])
        return product.sum(dim=1) + self.b


def relu(x):
    return jt.maximum(x, 0.0)


class Model(Module):
    def __init__(self):
        self.first = Dense(3, 8)
        self.relu = jt.make_module(relu)()
        self.second = Dense(8, 1)

    def execute(self, x):
        return self.second(self.relu(self.first(x)))


def test_tensors_that_a_module_holds_are_its_parameters() -> None:
    model = Model()
    names = [name for name, _ in model.named_parameters()]
    assert names == ["first.w", "first.b", "second.w", "second.b"]
    assert isinstance(model.parameters(), list)
    assert all(p.requires_grad for p in model.parameters())


def test_the_model_computes_what_it_says() -> None:
    model = Model()
    x = np.random.default_rng(0).random((4, 3))
    y = model(jt.float32(x)).numpy()
    w1, b1, w2, b2 = (p.numpy() for p in model.parameters())
    np.testing.assert_allclose(y, np.maximum(x @ w1 + b1, 0) @ w2 + b2, 1e-5, 1e-6)


def test_a_step_with_a_loss_of_many_elements() -> None:
    model = Model()
    opt = jt.optim.SGD(model.parameters(), 0.1)
    x = np.random.default_rng(0).random((4, 3)).astype(np.float32)
    before = [torch.tensor(p.numpy().copy(), requires_grad=True) for p in model.parameters()]
    w1, b1, w2, b2 = before
    ((torch.relu(torch.tensor(x) @ w1 + b1) @ w2 + b2) ** 2).sum().backward()
    y = model(jt.float32(x))
    opt.step(y**2)
    y.sync()
    jt.sync_all(True)
    for old, new in zip(before, model.parameters(), strict=True):
        wanted = (old - 0.1 * old.grad).detach().numpy()
        np.testing.assert_allclose(new.numpy(), wanted, 1e-4, 1e-6)


def test_made_modules_take_the_functions_name_and_further_arguments() -> None:
    Scale = jt.make_module(lambda x, factor: x * factor)
    assert Scale(3)(jt.array([1.0, 2.0])).tolist() == [3, 6]
    assert type(jt.make_module(relu)()).__name__ == "relu"


def test_gradients() -> None:
    x = jt.array([1.0, 2.0])
    assert jt.grad(x * x, x).tolist() == [2, 4]
    assert [g.tolist() for g in jt.grad(x * x, [x])] == [[2, 4]]


def test_resnet_is_there() -> None:
    model = resnet.Resnet18()
    assert len(list(model.parameters())) == 62
    assert model.layer4[1].conv2.weight.shape == (512, 512, 3, 3)


@pytest.mark.parametrize(
    ("where", "name"), [(jt, "flags"), (jt.nn, "LSTM"), (jt.models, "vgg"), (resnet, "Resnet152")]
)
def test_what_is_missing_names_what_is_there(where, name: str) -> None:
    with pytest.raises(Unsupported, match=rf"has no {name} here; it has .*[a-z]"):
        getattr(where, name)
