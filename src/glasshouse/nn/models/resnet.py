"""The residual networks ResNet-18, 34 and 50, with torchvision's parameter names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from glasshouse.nn import init
from glasshouse.nn.activation import ReLU
from glasshouse.nn.container import Sequential
from glasshouse.nn.conv import Conv2d
from glasshouse.nn.linear import Linear
from glasshouse.nn.module import Module
from glasshouse.nn.norm import BatchNorm2d
from glasshouse.nn.parameter import Parameter
from glasshouse.nn.pool import AdaptiveAvgPool2d, MaxPool2d


def _conv(inside: int, outside: int, kernel: int, stride: int = 1) -> Conv2d:
    layer = Conv2d(inside, outside, kernel, stride, padding=kernel // 2, bias=False)
    layer.weight = Parameter(init.kaiming_normal_fan_out((outside, inside, kernel, kernel)))
    return layer


class BasicBlock(Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion: ClassVar[int] = 1

    def __init__(self, inside: int, width: int, stride: int, downsample: Module | None) -> None:
        self.conv1 = _conv(inside, width, 3, stride)
        self.bn1 = BatchNorm2d(width)
        self.relu = ReLU()
        self.conv2 = _conv(width, width, 3)
        self.bn2 = BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x: Any) -> Any:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(out + shortcut)


class Bottleneck(Module):
    """A 3x3 convolution between two 1x1 ones, beside a shortcut; the stride is in the 3x3 one."""

    expansion: ClassVar[int] = 4

    def __init__(self, inside: int, width: int, stride: int, downsample: Module | None) -> None:
        outside = width * self.expansion
        self.conv1 = _conv(inside, width, 1)
        self.bn1 = BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = BatchNorm2d(width)
        self.conv3 = _conv(width, outside, 1)
        self.bn3 = BatchNorm2d(outside)
        self.relu = ReLU()
        self.downsample = downsample

    def forward(self, x: Any) -> Any:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(out + shortcut)


class ResNet(Module):
    """A stem, four stages of residual blocks, and a classifier over their mean."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: Sequence[int],
        num_classes: int = 1000,
    ) -> None:
        self.conv1 = _conv(3, 64, 7, 2)
        self.bn1 = BatchNorm2d(64)
        self.relu = ReLU()
        self.maxpool = MaxPool2d(3, 2, padding=1)
        inside = 64
        for number, depth in enumerate(depths):
            width, stride = 64 << number, 1 if number == 0 else 2
            self.add_module(f"layer{number + 1}", _stage(block, inside, width, depth, stride))
            inside = width * block.expansion
        self.avgpool = AdaptiveAvgPool2d(1)
        self.fc = Linear(inside, num_classes)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = self.layer4(x)
        return self.fc(self.avgpool(x).flatten(1))


def _stage(
    block: type[BasicBlock] | type[Bottleneck], inside: int, width: int, depth: int, stride: int
) -> Sequential:
    outside = width * block.expansion
    downsample = None
    if stride != 1 or inside != outside:
        downsample = Sequential(_conv(inside, outside, 1, stride), BatchNorm2d(outside))
    blocks = [block(inside, width, stride, downsample)]
    blocks += [block(outside, width, 1, None) for _ in range(depth - 1)]
    return Sequential(*blocks)


def resnet18(num_classes: int = 1000) -> ResNet:
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes)


def resnet34(num_classes: int = 1000) -> ResNet:
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes)


def resnet50(num_classes: int = 1000) -> ResNet:
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes)
