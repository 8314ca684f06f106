"""Transposed convolutions, and those that make few channels, against PyTorch: every way."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.backend.cpu.few_channels import FEW, makes_few
from glasshouse.backend.cpu.few_filters import FILTERS
from glasshouse.backend.cpu.spread import SPREAD
from glasshouse.backend.cpu.transposed import PHASES
from glasshouse.backend.cxx.image import Image
from glasshouse.ops.window import Window
from glasshouse.runtime.module import Module


def _ways(module: Module) -> set[str]:
    return {t.routine for k in module.program.kernels for t in k.tiles}


class Generator(nn.Module):
    """A single window, phases, few channels, with ops behind each."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ConvTranspose2d(9, 20, 4)
        self.twice = nn.ConvTranspose2d(20, 11, 4, 2, 1)
        self.wide = nn.ConvTranspose2d(11, 18, (3, 2), (2, 3), output_padding=(1, 0))
        self.colours = nn.ConvTranspose2d(18, 3, 5, 2, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.twice(torch.relu(self.first(x))))
        return torch.tanh(self.colours(torch.relu(self.wide(x))))


def test_a_generator_takes_each_way() -> None:
    torch.manual_seed(0)
    model, x = Generator().eval(), torch.randn(3, 9, 1, 1)
    module = gh.compile(model, x)
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(module(x)), model(x), atol=1e-5, rtol=1e-5)
    assert {FEW, PHASES, SPREAD} <= _ways(module)


def test_a_waveform_of_any_length_and_an_upsampled_volume() -> None:
    torch.manual_seed(0)
    wave = nn.Sequential(nn.ConvTranspose1d(5, 7, 2, 2), nn.ReLU(), nn.ConvTranspose1d(7, 1, 9, 4))
    volume = nn.ConvTranspose3d(6, 19, (2, 1, 3), (2, 1, 3))
    for model, x in ((wave, torch.randn(2, 5, 37)), (volume, torch.randn(2, 6, 3, 4, 5))):
        module = gh.compile(model.eval(), x)
        with torch.no_grad():
            torch.testing.assert_close(torch.as_tensor(module(x)), model(x), atol=1e-5, rtol=1e-5)
    assert SPREAD in _ways(module)


@pytest.mark.parametrize("batch", [1, 5])
def test_a_batch_that_is_not_known_before(batch: int) -> None:
    torch.manual_seed(0)
    model = Generator().eval()
    compiled = torch.compile(model, backend="glasshouse", dynamic=True)
    with torch.no_grad():
        for n in (2, batch, 3):
            x = torch.randn(n, 9, 1, 1)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)


def test_steps_of_training() -> None:
    """Three steps of each: losses as PyTorch's, so gradients by images and weights are."""
    torch.manual_seed(0)

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Generator()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.model(x).sin().square().sum()

    ours, theirs, x = Loss(), Loss(), torch.randn(2, 9, 1, 1)
    theirs.load_state_dict(ours.state_dict())
    step = gh.compile(gh.trace_training(ours, None, torch.optim.SGD(ours.parameters(), lr=1e-5), x))
    optimizer = torch.optim.SGD(theirs.parameters(), lr=1e-5)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = theirs(x)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        assert float(step(x)) == pytest.approx(losses[-1], rel=1e-4)
    assert losses[2] < 0.999 * losses[0], "no step was made"


class Colours(nn.Module):
    """Few channels in the middle and at the end; windows that are even, dilated, not padded."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = nn.ConvTranspose2d(17, 1, (3, 2), padding=(1, 0))
        self.wide = nn.Conv2d(1, 20, 3, padding=1)
        self.flow = nn.Conv2d(20, 2, (5, 3), dilation=(2, 1), padding=(4, 1))
        self.last = nn.Conv2d(22, 8, 4, padding="same")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.wide(torch.sigmoid(self.mask(x))))
        return torch.tanh(self.last(torch.cat([y, self.flow(y)], 1)))


def test_few_filters() -> None:
    torch.manual_seed(0)
    model, x = Colours().eval(), torch.randn(2, 17, 21, 34)
    module = gh.compile(model, x)
    assert [t.routine for k in module.program.kernels for t in k.tiles].count(FILTERS) == 3
    for given in (x, x * float("nan"), torch.zeros_like(x)):
        with torch.no_grad():
            wanted = model(given)
        found = torch.as_tensor(module(given))
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5, equal_nan=True)


def test_few_filters_along_one_axis_with_any_batch() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(1, 16, 5), nn.ReLU(), nn.Conv1d(16, 1, 7, padding=3)).eval()
    compiled = torch.compile(model, backend="glasshouse", dynamic=True)
    with torch.no_grad():
        for n in (2, 1, 5):
            x = torch.randn(n, 1, 333)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("size", "kernel", "few"), [(64, 9, True), (512, 9, False), (512, 3, True), (2048, 7, False)]
)
def test_high_windows_over_long_lines_stay_products_over_channels(
    size: int, kernel: int, few: bool
) -> None:
    """Parts that hold fewer rows than a window reaches up would compute most of them again."""
    half = (kernel // 2, kernel // 2)
    window, result = Window((kernel, kernel), (2, 2), half, half, (1, 1)), (size // 2, size // 2)
    assert makes_few(Image(1, 3, (size, size), 32, result, window, 1)) is few
