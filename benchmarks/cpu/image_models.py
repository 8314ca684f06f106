"""Image models that are measured quantised, beside those of the table: `quantised.py`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from models import convolution


def grouped(inside: int, outside: int, size: int, stride: int, groups: int) -> nn.Sequential:
    """A convolution in groups with its batch norm."""
    conv = nn.Conv2d(inside, outside, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outside))


def spread(model: nn.Module) -> None:
    """Weights and statistics that keep values of an untrained model alike from layer to layer."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
        if isinstance(module, nn.BatchNorm2d):  # statistics that folding has to respect
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 1.5)


class Inverted(nn.Module):
    """1x1 up, 3x3 by channel, 1x1 down; added to where it came from, if sizes are equal."""

    def __init__(self, inside: int, outside: int, stride: int, by: int) -> None:
        super().__init__()
        wide = inside * by
        steps = [] if by == 1 else [convolution(inside, wide, 1), nn.ReLU6()]
        steps += [grouped(wide, wide, 3, stride, wide), nn.ReLU6(), convolution(wide, outside, 1)]
        self.path = nn.Sequential(*steps)
        self.added = stride == 1 and inside == outside

    def forward(self, x: Any) -> Any:
        return x + self.path(x) if self.added else self.path(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1."""

    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = [convolution(3, 32, 3, 2), nn.ReLU6()]
        inside = 32
        for by, channels, count, stride in self.STAGES:
            for number in range(count):
                blocks.append(Inverted(inside, channels, stride if number == 0 else 1, by))
                inside = channels
        self.blocks = nn.Sequential(*blocks, convolution(inside, 1280, 1), nn.ReLU6())
        self.head = nn.Linear(1280, 1000)
        spread(self)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(x).mean((2, 3)))


class Bottleneck(nn.Module):
    """1x1, 3x3 in 32 groups, 1x1."""

    def __init__(self, inside: int, width: int, outside: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            convolution(inside, width, 1), nn.ReLU(), grouped(width, width, 3, stride, 32),
            nn.ReLU(), convolution(width, outside, 1),
        )  # fmt: skip
        same = stride == 1 and inside == outside
        self.shortcut = nn.Identity() if same else convolution(inside, outside, 1, stride)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.path(x) + self.shortcut(x))


class ResNeXt(nn.Module):
    """ResNeXt-50, 32 groups of 4 channels."""

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = [convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        inside = 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for number in range(count):
                width = 128 << stage
                stride = 2 if stage and number == 0 else 1
                blocks.append(Bottleneck(inside, width, 2 * width, stride))
                inside = 2 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inside, 1000)
        spread(self)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(x).mean((2, 3)))


class UNet(nn.Module):
    """U-Net of four levels: two 3x3 convolutions each, transposed convolutions on the way up."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        wide = [width << level for level in range(4)]
        self.down = nn.ModuleList(
            self.twice(a, b) for a, b in zip([3, *wide[:-1]], wide, strict=True)
        )
        self.pool = nn.MaxPool2d(2)
        self.middle = self.twice(wide[-1], 2 * wide[-1])
        self.rise = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in wide[::-1])
        self.up = nn.ModuleList(self.twice(2 * w, w) for w in wide[::-1])
        self.head = nn.Conv2d(width, 2, 1)
        spread(self)

    @staticmethod
    def twice(inside: int, outside: int) -> nn.Sequential:
        return nn.Sequential(
            convolution(inside, outside, 3), nn.ReLU(), convolution(outside, outside, 3), nn.ReLU()
        )

    def forward(self, x: Any) -> Any:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = self.pool(x)
        x = self.middle(x)
        for rise, block, skip in zip(self.rise, self.up, kept[::-1], strict=True):
            x = block(torch.cat([skip, rise(x)], 1))
        return self.head(x)
