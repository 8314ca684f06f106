"""Modules that count their calls in an attribute, through `torch.compile`."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo import config

from glasshouse.frontend import dynamo


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    dynamo.reset()


class Field(torch.nn.Module):
    """The right-hand side of an ODE, as its solvers are given one."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.layer = torch.nn.Linear(6, 6)

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        self.count()
        return torch.tanh(self.layer(y))

    def count(self) -> None:
        self.calls += 1


class Solved(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.field = Field()

    def forward(model, y: torch.Tensor) -> torch.Tensor:  # nobody has to say `self`
        for _ in range(3):
            y = y + 0.1 * model.field(y)
        return y


class Rolled(torch.nn.Module):
    """An integer that its code never assigns."""

    def __init__(self, by: int) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.roll(x, self.by) * 2


def compiled(model: torch.nn.Module) -> torch.nn.Module:
    made: torch.nn.Module = torch.compile(
        model, backend="glasshouse", options={"executor": "reference"}
    )
    return made


def test_counts_need_one_more_graph_at_most() -> None:
    torch.manual_seed(0)
    model, y = Solved().eval(), torch.randn(4, 6)
    with torch.no_grad():
        expected, run = model(y), compiled(model)
        before = model.field.calls
        for _ in range(12):
            torch.testing.assert_close(run(y), expected)
    assert model.field.calls == before + 36
    assert len(dynamo.compiled_graphs()) <= 2
    assert not config.allow_unspec_int_on_nn_module  # as it was


def test_other_integers_stay_constants() -> None:
    x = torch.randn(8)
    with torch.no_grad():
        for by in (1, 2, 3):
            torch.testing.assert_close(compiled(Rolled(by))(x), torch.roll(x, by) * 2)
    assert len(dynamo.compiled_graphs()) == 3
