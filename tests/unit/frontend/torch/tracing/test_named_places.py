"""Assignments at places that tensors of one number name stay inside of a compiled model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import glasshouse as gh


def _ring(queue: torch.Tensor, place: torch.Tensor, x: torch.Tensor) -> None:
    queue[place % 4] = x.sum()


def _added(queue: torch.Tensor, place: torch.Tensor, x: torch.Tensor) -> None:
    queue[place] += x


def _inner(queue: torch.Tensor, place: torch.Tensor, x: torch.Tensor) -> None:
    queue[1:3, :, place] = x[:1, None].double()


def _behind_all(queue: torch.Tensor, place: torch.Tensor, x: torch.Tensor) -> None:
    queue[0, ..., None, place] = x[:3, None].int()


def _both_ends(queue: torch.Tensor, place: torch.Tensor, x: torch.Tensor) -> None:
    queue[place, ..., place - 3] = 2.5


def _number(queue: torch.Tensor, place: torch.Tensor, x: torch.Tensor) -> None:
    queue[..., place] = True


CASES = [_ring, _added, _inner, _behind_all, _both_ends, _number]


class Model(nn.Module):
    queue: torch.Tensor

    def __init__(self, assign: Callable[..., None]) -> None:
        super().__init__()
        self.register_buffer("queue", torch.zeros(4, 3, 5))
        self.assign = assign

    def forward(self, place: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        self.assign(self.queue, place, x)
        return self.queue * 1


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("error::glasshouse.errors.InParts")
def test_an_assignment_at_a_place_that_is_data(case: Callable[..., None]) -> None:
    x, model = torch.arange(1.0, 6.0), Model(case)
    module = gh.compile(Model(case), torch.tensor(1), x, target="interp")
    for place in (2, 0, 3):
        torch.testing.assert_close(module(torch.tensor(place), x), model(torch.tensor(place), x))


def test_a_place_that_is_not_there() -> None:
    x = torch.arange(1.0, 6.0)
    module = gh.compile(Model(_inner), torch.tensor(1), x, target="interp")
    with pytest.raises(gh.errors.ExecutionError):
        module(torch.tensor(5), x)
