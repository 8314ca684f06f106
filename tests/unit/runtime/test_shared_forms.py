"""Graphs of one model share packed forms of its weights, as long as those are what they were."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

from glasshouse.frontend import dynamo
from glasshouse.runtime import shared_forms


@pytest.fixture
def model() -> Any:
    torch._dynamo.reset()
    dynamo.reset()
    torch.manual_seed(0)
    yield nn.Sequential(nn.Linear(96, 128), nn.ReLU(), nn.Linear(128, 64)).requires_grad_(False)
    torch._dynamo.reset()
    dynamo.reset()


def _compiled(model: Any) -> Any:
    return torch.compile(
        model, backend="glasshouse", options={"executor": "compiled"}, dynamic=False
    )


def _packed(module: Any) -> list[int]:
    return [module.constant_at(place).ctypes.data for place in module.plan.packed.values()]


def _both() -> list[Any]:
    return [g.runner.module for g in dynamo.compiled_graphs()]


def test_two_graphs_hold_packed_weights_once(model: Any) -> None:
    call = _compiled(model)
    for rows in (7, 9):
        x = torch.randn(rows, 96)
        torch.testing.assert_close(call(x), model(x))
    first, second = map(_packed, _both())
    assert len(first) == 2
    assert first == second


@pytest.mark.parametrize("through_data", [False, True])
def test_a_weight_that_was_written_to_is_packed_anew(model: Any, through_data: bool) -> None:
    call = _compiled(model)
    few, more = torch.randn(7, 96), torch.randn(9, 96)
    call(few)
    weight = model[2].weight.data if through_data else model[2].weight
    weight.mul_(3)
    torch.testing.assert_close(call(more), model(more))
    torch.testing.assert_close(call(few), model(few))
    model[0].weight.add_(1)
    for x in (few, more):
        torch.testing.assert_close(call(x), model(x))


def test_forms_go_with_the_last_module(model: Any) -> None:
    gc.collect()
    before = len(shared_forms._HELD)
    call = _compiled(model)
    call(torch.randn(7, 96))
    assert len(shared_forms._HELD) == before + 2
    del call
    torch._dynamo.reset()
    dynamo.reset()
    gc.collect()
    assert len(shared_forms._HELD) == before
