"""`compile(model, take_weights=True)`: a weight is held once, and nobody is misled about it."""

from __future__ import annotations

import copy
import ctypes
import gc
import linecache
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse import collection
from glasshouse.errors import TypeMismatch, WeightsTaken
from glasshouse.record.schema import ErrorRow

TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


class Net(nn.Module):
    """Two layers whose weights are packed, and a table that is read as it lies."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.table = nn.Embedding(300, 180, dtype=dtype)
        self.first = nn.Linear(180, 203, dtype=dtype)
        self.second = nn.Linear(203, 300, bias=False, dtype=dtype)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.second(torch.relu(self.first(self.table(ids))))
        return found


def _net(dtype: torch.dtype = torch.float32) -> Net:
    torch.manual_seed(0)
    return Net(dtype).eval().requires_grad_(False)


IDS = torch.arange(17) * 13
PACKED = ["first.weight", "second.weight"]


def _lacking(model: nn.Module) -> list[str]:
    return [name for name, tensor in model.named_parameters() if tensor.is_meta]


@pytest.mark.parametrize("dtype", TYPES)
def test_packed_weights_leave_the_model_and_come_back(dtype: torch.dtype) -> None:
    model = _net(dtype)
    expected = gh.compile(copy.deepcopy(model), IDS)(IDS)
    before = {n: p.clone() for n, p in model.named_parameters()}
    memory = [ref(p.untyped_storage()) for n, p in model.named_parameters() if n in PACKED]
    module = gh.compile(model, IDS, take_weights=True)
    assert _lacking(model) == PACKED, "the table is read where it lies"
    gc.collect()
    assert not any(m() for m in memory), "nobody holds their memory"
    assert torch.equal(module(IDS), expected)
    module.give_weights_back(model)
    assert _lacking(model) == []
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert model(IDS).shape == (17, 300)


class _Ring:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.self = self


def test_garbage_goes_before_the_first_call() -> None:
    model = _net()
    gc.disable()
    try:
        left = ref(_Ring())
        gh.compile(model, IDS, take_weights=True)
        assert left() is None
    finally:
        gc.enable()


def test_memory_is_given_back_without_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    left = ref(_Ring())
    with collection.sparing_memory(True):
        collection.stage_over()
    assert left() is None


def test_stages_give_memory_back_where_that_was_asked_for() -> None:
    gc.disable()
    try:
        left = ref(_Ring())
        with collection.sparing_memory(False):
            collection.stage_over()
        collection.stage_over()
        assert left() is not None
    finally:
        gc.enable()


def test_texts_of_files_go_and_those_of_cells_stay() -> None:
    cell = (4, None, ["a\n"], "<cell>")
    linecache.cache["<cell>"] = cell
    try:
        assert linecache.getlines(__file__)
        with collection.sparing_memory(True):
            collection.stage_over()
        assert __file__ not in linecache.cache
        assert linecache.cache["<cell>"] == cell, "nowhere else is its text"
    finally:
        del linecache.cache["<cell>"]


def test_using_the_model_says_what_to_do() -> None:
    model = _net()
    module = gh.compile(model, IDS, take_weights=True)
    for use in (
        lambda: model(IDS),
        lambda: model.first(torch.zeros(1, 180)),
        model.state_dict,
        lambda: gh.compile(model, IDS),
        lambda: gh.compile(model, IDS, take_weights=True),
        lambda: gh.trace(model, IDS),
    ):
        with pytest.raises(WeightsTaken, match=r"(?s)took (first\.)?weight.*give_weights_back"):
            use()
    module.give_weights_back(model)
    again = gh.compile(model, IDS, take_weights=True)
    assert torch.equal(again(IDS), module(IDS))


def test_new_weights_take_their_place() -> None:
    model, other = _net(), _net()
    with torch.no_grad():
        other.first.weight.mul_(2)
        other.table.weight.add_(1)
    module = gh.compile(model, IDS, take_weights=True)
    module.update_weights(other)
    expected = other(IDS)
    torch.testing.assert_close(module(IDS), expected)
    model.load_state_dict(other.state_dict(), assign=True)
    torch.testing.assert_close(model(IDS), expected)


def test_a_model_that_lacks_weights_updates_the_others() -> None:
    model, other = _net(), _net()
    module = gh.compile(model, IDS, take_weights=True)
    for one in (model, other):
        with torch.no_grad():
            one.table.weight.add_(1)
    module.update_weights(model)
    torch.testing.assert_close(module(IDS), other(IDS))


def test_a_module_is_saved_and_looked_into_as_any_other(tmp_path: Path) -> None:
    model = _net()
    module = gh.compile(model, IDS, take_weights=True)
    expected = module(IDS)
    assert torch.equal(gh.load(module.save(tmp_path / "saved"))(IDS), expected)
    held = module.held()
    assert all(isinstance(held[name], np.ndarray) for name in PACKED)
    recording = module.recording(IDS, count=1)
    plain = gh.compile(_net(), IDS).recording(IDS, count=1)
    rows = recording.graphs[0].table(ErrorRow).rows
    assert rows == plain.graphs[0].table(ErrorRow).rows > 0
    assert torch.equal(copy.deepcopy(module)(IDS), expected)


def test_tied_weights_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(128, 128, bias=False)
            self.b = nn.Linear(128, 128, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> Any:
            return self.b(torch.relu(self.a(x)))

    model, x = Tied().requires_grad_(False), torch.randn(9, 128)
    expected = model(x)
    module = gh.compile(model, x, take_weights=True)
    assert model.a.weight.is_meta
    assert model.b.weight is model.a.weight
    torch.testing.assert_close(module(x), expected)
    module.give_weights_back(model)
    assert model.b.weight is model.a.weight
    torch.testing.assert_close(model(x), expected)


def test_only_models_of_pytorch_have_weights_to_take() -> None:
    with pytest.raises(TypeMismatch, match=r"torch\.nn\.Module"):
        gh.compile(lambda x: x + 1, torch.ones(3), take_weights=True)
