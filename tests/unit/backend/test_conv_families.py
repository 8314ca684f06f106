"""Convolutions over three axes, and gradients of those by channel, against PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.backend.cpu.conv_any import CONV_ANY


class Volumes(nn.Module):
    """Each way that planes are convolved in; sizes that no vector or tile divides."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv3d(3, 12, 3, padding=1)
        self.step = nn.Conv3d(12, 20, 3, stride=2, padding=1)
        self.grouped = nn.Conv3d(20, 20, (2, 3, 1), padding=(0, 1, 0), dilation=(2, 1, 1), groups=4)
        self.up = nn.ConvTranspose3d(20, 9, 2, stride=2)
        self.channels = nn.Conv3d(9, 9, 3, padding=1, groups=9)
        self.back = nn.ConvTranspose3d(9, 32, 3, padding=1)
        self.tall = nn.Conv3d(32, 32, 3, padding=(4, 1, 1))  # whole planes of nothing but padding
        self.last = nn.Conv3d(32, 5, (1, 2, 2), stride=(3, 1, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.grouped(torch.relu(self.step(torch.relu(self.first(x)))))
        x = self.back(self.channels(torch.relu(self.up(x))))
        return self.last(torch.relu(self.tall(x)))


class Planes(nn.Module):
    """The two most usual of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv3d(3, 12, 3, padding=1)
        self.up = nn.ConvTranspose3d(12, 5, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(torch.relu(self.first(x)))


class Channels(nn.Module):
    """Every channel by itself: steps, dilation, padding, one and two axes."""

    def __init__(self) -> None:
        super().__init__()
        self.square = nn.Conv2d(19, 19, 3, padding=1, groups=19)
        self.wide = nn.Conv2d(19, 19, (5, 2), stride=(2, 3), padding=(3, 0), groups=19)
        self.thin = nn.Conv2d(19, 19, 3, dilation=(1, 2), padding=2, groups=19)
        self.up = nn.ConvTranspose2d(19, 19, 3, stride=2, output_padding=1, groups=19)
        self.line = nn.Conv1d(19, 19, 4, dilation=3, padding=2, groups=19)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.wide(torch.relu(self.square(x))))
        return self.line(torch.relu(self.up(self.thin(x))).flatten(2))


_CASES = {
    "planes": (Planes, (2, 3, 7, 9, 10)),
    "volumes": (Volumes, (2, 3, 7, 9, 10)),
    "channels": (Channels, (2, 19, 13, 17)),
}
_NAMES = [n if n == "planes" else pytest.param(n, marks=pytest.mark.slow) for n in _CASES]


@pytest.mark.parametrize("name", _NAMES)
def test_values_and_gradients(name: str) -> None:
    make, shape = _CASES[name]
    torch.manual_seed(0)
    model, x = make(), torch.randn(shape)

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.x = nn.Parameter(x)

        def forward(self, scale: torch.Tensor) -> torch.Tensor:
            return (self.model(self.x) * scale).sin().sum()

    loss, scale = Loss(), torch.tensor(1.3)
    optimizer = torch.optim.SGD(loss.parameters(), lr=1.0)
    module = gh.compile(gh.trace_training(loss, None, optimizer, scale))
    routines = {t.routine for k in module.program.kernels for t in k.tiles}
    assert CONV_ANY not in routines, "loops over planes, where templates serve"
    # One step with a rate of 1 leaves minus the gradients in the weights.
    before = {k: v.detach().double() for k, v in loss.named_parameters()}
    wide = Loss().double()
    wide.load_state_dict({k: v.double() for k, v in loss.state_dict().items()})
    wanted = wide(scale.double())
    wanted.backward()
    assert float(module(scale)) == pytest.approx(wanted.item(), rel=1e-5)
    after = {n.attrs["name"]: module.source_array(n) for n in module.graph.updates}
    for key, value in wide.named_parameters():
        got = before[key] - torch.as_tensor(after[key]).double()
        scale_of = float(value.grad.abs().max()) + 1e-6
        assert float((got - value.grad).abs().max()) < 3e-5 * scale_of + 2e-6, key
