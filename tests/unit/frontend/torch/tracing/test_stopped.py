"""Training: gradients end where the model says so."""

import pytest
import torch
from torch import nn

import glasshouse as gh
from frontend_torch import assert_same, outputs_of


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        y = self.weight * x
        return (y * y.detach()).sum()


class UnderNoGrad(Detached):
    def forward(self, x):
        y = self.weight * x
        with torch.no_grad():
            scale = (y * y).sum()
        return (y * scale).sum()


class WrittenUnderNoGrad(Detached):
    """The write is in the values; autograd does not see it."""

    def forward(self, x):
        y = self.weight * x
        row = y[1:]
        with torch.no_grad():
            y.clamp_(max=4.0)
            row[0] = row.sum()
            y += self.weight
        return (y * y).sum() + row.sum()


class WeightWrittenUnderNoGrad(Detached):
    """A weight that is read before it is cut off, and after."""

    def forward(self, x):
        y = self.weight * x
        with torch.no_grad():
            self.weight.clamp_(max=2.5)
        return (y + self.weight.exp()).sum()


class WrittenThroughData(Detached):
    def forward(self, x):
        y = self.weight + x
        y.data.clamp_(max=4.0)
        y[1:].detach().mul_(2.0)
        y.data[0] = 0.5
        return y.exp().sum()


class WeightWrittenThroughData(Detached):
    def forward(self, x):
        y = self.weight.exp()
        self.weight.data.clamp_(max=2.5)
        return (y * x + self.weight.exp()).sum()


class Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 2, padding_idx=1)
        nn.init.ones_(self.table.weight)  # the padding too: what it holds is read

    def forward(self, x):
        return (self.table(x.long()) ** 2).sum()


@pytest.mark.parametrize(
    "make",
    [
        Detached,
        UnderNoGrad,
        WrittenUnderNoGrad,
        WeightWrittenUnderNoGrad,
        WrittenThroughData,
        WeightWrittenThroughData,
        Padded,
    ],
)
def test_a_step_equals_pytorchs(make):
    model, x = make(), torch.tensor([1.0, 3.0, 1.0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    graph = gh.trace_training(model, None, optimizer, x)
    state: dict = {}
    loss = outputs_of(graph, [x], variables=state)[0]
    wanted = model(x)
    wanted.backward()
    optimizer.step()
    assert_same(loss, wanted)
    for name, value in model.named_parameters():
        assert_same(state[name], value)
