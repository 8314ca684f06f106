"""Modules: names, state, printing."""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse import nn
from glasshouse.errors import ShapeError, TypeMismatch, Unsupported


class Block(nn.Module):
    def __init__(self, width: int = 2) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.gain = nn.Parameter(np.ones(1, np.float32))
        self.label = "plain"

    def forward(self, x: gh.Tensor) -> gh.Tensor:
        return self.norm(self.fc(x)) * self.gain


class Model(nn.Module):
    def __init__(self) -> None:  # no super().__init__(): it is not needed
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Sequential(nn.Linear(2, 1), nn.ReLU())

    def forward(self, x: gh.Tensor) -> gh.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class TorchBlock(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.rand(1))
        self.fc = torch.nn.Linear(2, 2)
        self.norm = torch.nn.BatchNorm1d(2)

    def forward(self, x):
        return self.norm(self.fc(x)) * self.gain


class TorchModel(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([TorchBlock(), TorchBlock()])
        self.head = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.ReLU())

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_names_as_in_torch() -> None:
    ours, theirs = Model(), TorchModel()
    assert set(dict(ours.named_parameters())) == set(dict(theirs.named_parameters()))
    assert set(dict(ours.named_buffers())) == set(dict(theirs.named_buffers()))
    assert set(ours.state_dict()) == set(theirs.state_dict())
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]


def test_state_comes_from_torch_and_goes_back() -> None:
    torch.manual_seed(0)
    ours, theirs = Model(), TorchModel()
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).standard_normal((5, 2), np.float32)
    wanted = theirs(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(gh.array(x)).numpy(), wanted, 1e-4, 1e-6)
    back = {k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()}
    theirs.load_state_dict(back)
    for name, buffer in theirs.named_buffers():  # both saw one batch
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), buffer.numpy(), 1e-5, 1e-6)


def test_state_that_does_not_fit() -> None:
    model = nn.Linear(2, 1)
    state = {"weight": np.zeros((1, 2)), "other": np.zeros(1)}
    with pytest.raises(TypeMismatch, match="missing: bias; unknown: other"):
        model.load_state_dict(state)
    model.load_state_dict(state, strict=False)
    assert model.weight.tolist() == [[0, 0]]
    with pytest.raises(ShapeError, match=r"weight: \[3\] for float32\[1, 2\]"):
        model.load_state_dict({"weight": np.zeros(3), "bias": np.zeros(1)})


def test_loading_keeps_parameters_what_they_are() -> None:
    model = nn.Linear(2, 1)
    weight = model.weight
    model.load_state_dict({"weight": [[1, 2]], "bias": [3]})
    assert model.weight is weight
    assert weight.requires_grad
    assert weight.dtype is gh.float32
    model(gh.ones(1, 2)).sum().backward()
    assert weight.grad is not None


def test_printing_as_in_torch() -> None:
    assert repr(Model()) == (
        "Model(\n"
        "  (blocks): ModuleList(\n"
        "    (0): Block(\n"
        "      (fc): Linear(in_features=2, out_features=2, bias=True)\n"
        "      (norm): BatchNorm1d(2, eps=1e-05, momentum=0.1)\n"
        "    )\n"
        "    (1): Block(\n"
        "      (fc): Linear(in_features=2, out_features=2, bias=True)\n"
        "      (norm): BatchNorm1d(2, eps=1e-05, momentum=0.1)\n"
        "    )\n"
        "  )\n"
        "  (head): Sequential(\n"
        "    (0): Linear(in_features=2, out_features=1, bias=True)\n"
        "    (1): ReLU()\n"
        "  )\n"
        ")"
    )


def test_initial_weights_cost_nothing_until_they_are_read() -> None:
    layer = nn.Linear(1000, 1000)
    assert layer.weight.is_pending
    layer.load_state_dict({"weight": np.zeros((1000, 1000)), "bias": np.zeros(1000)})
    assert not layer.weight.is_pending


def test_initial_weights_follow_the_seed() -> None:
    def fresh() -> list:
        gh.manual_seed(7)
        return nn.Linear(3, 2).weight.tolist()

    assert fresh() == fresh()
    bound = np.abs(nn.Linear(100, 50).weight.numpy()).max()
    assert 0.09 < bound <= 0.1  # 1 / sqrt(100)


def test_train_and_eval_reach_all() -> None:
    model = Model()
    model.eval()
    assert not any(m.training for m in model.modules())
    model.train()
    assert model.blocks[1].norm.training


def test_attributes() -> None:
    block = Block()
    assert block.label == "plain"
    assert "gain" in dict(block.named_parameters())
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = block.missing
    with pytest.raises(TypeMismatch, match=r"Block\.fc cannot become int"):
        block.fc = 3
    del block.gain
    assert "gain" not in dict(block.named_parameters())
    block.fc = nn.Identity()
    assert [type(m).__name__ for m in block.children()] == ["Identity", "BatchNorm1d"] or [
        type(m).__name__ for m in block.children()
    ] == ["BatchNorm1d", "Identity"]


def test_a_buffer_keeps_its_identity() -> None:
    norm = nn.BatchNorm1d(2)
    mean = norm.running_mean
    norm(gh.array([[1.0, 2.0], [3.0, 4.0]]))
    assert norm.running_mean is mean
    np.testing.assert_allclose(mean.numpy(), [0.2, 0.3], 1e-6)
    norm.running_mean = gh.zeros(2)
    assert norm.running_mean is mean
    assert mean.tolist() == [0, 0]


def test_shared_modules_count_once() -> None:
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.Tanh(), layer)
    assert len(list(model.parameters())) == 2
    assert set(model.state_dict()) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_element_types() -> None:
    model = Block().half()
    assert model.fc.weight.dtype is gh.float16
    assert model.norm.num_batches_tracked.dtype is gh.int64
    assert model.fc.weight.requires_grad
    assert model.float().fc.weight.dtype is gh.float32


def test_freezing() -> None:
    model = Block().requires_grad_(False)
    assert not model(gh.ones(3, 2)).requires_grad
    model.fc.requires_grad_()
    model(gh.array([[1.0, 2.0], [2.0, 4.0]])).sum().backward()
    assert model.gain.grad is None
    assert model.fc.weight.grad is not None
    model.zero_grad()
    assert model.fc.weight.grad is None


def test_copies_and_pickles() -> None:
    model = Model()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.blocks[0].fc.weight is not model.blocks[0].fc.weight
        assert isinstance(twin.blocks[0].fc.weight, nn.Parameter)
        for name, tensor in model.state_dict().items():
            assert twin.state_dict()[name].tolist() == tensor.tolist()
        graph = gh.trace(twin, gh.spec((3, 2)))
        assert "blocks.1.fc" in {n.origin.source.path for n in graph.nodes}


def test_a_model_that_has_run_is_copied_and_pickled() -> None:
    """What its calls left is about this object: records of nodes cannot be pickled, either."""
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    x = gh.array(np.ones((2, 3), np.float32))
    for _ in range(4):
        wanted = model(x).numpy()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for _ in range(3):
            np.testing.assert_array_equal(twin(x).numpy(), wanted)
        with gh.no_grad():
            twin[0].weight.assign(twin[0].weight * 0.0)
        assert twin(x).numpy().tolist() != wanted.tolist()
        np.testing.assert_array_equal(model(x).numpy(), wanted)


def test_containers() -> None:
    layers = nn.ModuleList([nn.ReLU()])
    layers.append(nn.Tanh())
    assert len(layers) == 2
    assert isinstance(layers[-1], nn.Tanh)
    assert len(layers[:1]) == 1
    named = nn.Sequential({"first": nn.ReLU(), "second": nn.Tanh()})
    assert [n for n, _ in named.named_children()] == ["first", "second"]
    assert isinstance(named[1], nn.Tanh)
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Tanh()
    assert list(table) == ["a", "b"]
    with pytest.raises(TypeMismatch, match="holds modules, not int"):
        nn.Sequential(3)


def test_a_model_takes_arrays() -> None:
    model = Model().eval()
    x = np.ones((3, 2), np.float32)
    assert model(x).tolist() == model(gh.array(x)).tolist()


def test_abstract_modules() -> None:
    class Base(nn.Module, ABC):
        @abstractmethod
        def forward(self, x: gh.Tensor) -> gh.Tensor: ...

    class Concrete(Base):
        def forward(self, x: gh.Tensor) -> gh.Tensor:
            return x + 1

    with pytest.raises(TypeError, match="abstract"):
        Base()
    assert Concrete()(gh.zeros(1)).tolist() == [1]


def test_a_module_without_forward() -> None:
    with pytest.raises(Unsupported, match=r"Empty has no forward\(\)"):
        type(nn.Module)("Empty", (nn.Module,), {})()(1)
