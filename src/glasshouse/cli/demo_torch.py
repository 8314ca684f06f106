"""What the demo shows of PyTorch models: compiled, checked and timed against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from glasshouse.runtime.module import Module

SECONDS = 0.6
"""For which each system is measured: enough for a first impression, not for a claim."""


class Mlp(nn.Module):  # type: ignore[misc]  # to the type checker, torch is not there
    """The tutorial's: two linear layers, a GELU between, a residual, a layer norm."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.dense1 = nn.Linear(hidden, 4 * hidden)
        self.dense2 = nn.Linear(4 * hidden, hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Any) -> Any:
        return self.norm(self.dense2(F.gelu(self.dense1(x))) + x)


class Block(nn.Module):  # type: ignore[misc]  # as above
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride > 1 or inside != outside:
            project = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.shortcut = nn.Sequential(project, nn.BatchNorm2d(outside))

    def forward(self, x: Any) -> Any:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):  # type: ignore[misc]  # as above
    """ResNet-18 for 1,000 classes, or with fewer channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 7, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        sizes = [channels, *(channels << stage for stage in range(4) for _ in range(2))]
        blocks = (Block(a, b, 2 if b > a else 1) for a, b in pairwise(sizes))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(sizes[-1], 1000)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


def mlp_right(batch: int, hidden: int = 512) -> bool:
    """The tutorial's MLP; False when the compiled result is off."""
    torch.manual_seed(0)
    title = f"The tutorial's MLP in PyTorch, batch {batch}, hidden {hidden}"
    return _compare(title, Mlp(hidden), torch.randn(batch, hidden))


def resnet_right(size: int, channels: int = 64) -> bool:
    """ResNet-18 on one image of size x size; False when the compiled result is off."""
    torch.manual_seed(0)
    title = f"ResNet-18 in PyTorch, one image of {size} x {size}"
    return _compare(title, ResNet18(channels), torch.randn(1, 3, size, size))


def _compare(title: str, model: nn.Module, x: torch.Tensor) -> bool:
    from glasshouse import trace
    from glasshouse.cli.bench import interleaved, table
    from glasshouse.cli.compare_outputs import relative_difference
    from glasshouse.cli.demo_compiled import TOLERANCE, compiled

    model.eval()
    print(f"\n{title}:")
    module = compiled(trace(model, x), [x])
    if module is None:
        return True

    def eager() -> Any:
        with torch.inference_mode():
            return model(x)

    apart = relative_difference(module(x).numpy(), eager().numpy())
    systems: dict[str, Callable[[], Any]] = {
        "glasshouse": lambda: module(x), "pytorch eager": eager,
    }  # fmt: skip
    times = interleaved(systems, 4, SECONDS)
    print(table(times, {"glasshouse": 0.0, "pytorch eager": apart}))
    _show_time(module, x)
    if not apart < TOLERANCE:
        print("  that is too far apart: the kernels do not compute what PyTorch does")
    return apart < TOLERANCE


def _show_time(module: Module, x: torch.Tensor) -> None:
    """The kernels that take the most, and what each computes."""
    found = sorted(module.profile(x), key=lambda k: -k.seconds)
    total = sum(k.seconds for k in found) or 1.0
    for time in found[:5]:
        where = time.node.origin.source.path
        share = time.seconds / total
        print(f"  {time.seconds * 1e3:8.3f} ms {share:4.0%}  {time.name[:44]:<44} {where}")
    rest = found[5:]
    if rest:
        seconds = sum(k.seconds for k in rest)
        print(f"  {seconds * 1e3:8.3f} ms {seconds / total:4.0%}  {len(rest)} more kernels")
