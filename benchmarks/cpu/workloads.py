"""What is measured: models with inputs, the same on every call; what counts as right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from models import Bert, Gpt2, Mlp, ResNet, SelfAttention, TwoLayers

Built = tuple[nn.Module, tuple[torch.Tensor, ...]]
LEARNING_RATE = 1e-3
STEPS_CHECKED = 3


@dataclass(frozen=True)
class Workload:
    """A model to run, or to train: then its last input is the target.

    `dtype` is what model and inputs are in. With `allowed` they are float32, and products may be
    computed in bfloat16.
    """

    name: str
    make: Callable[[], Built]
    dtype: torch.dtype = torch.float32
    allowed: bool = False
    loss: Callable[..., torch.Tensor] | None = None

    @property
    def tolerance(self) -> float:
        """The greatest error, relative to the greatest value in float64, that counts as right."""
        return 2e-2 if self.low else 1e-4

    @property
    def low(self) -> bool:
        return self.allowed or self.dtype is torch.bfloat16

    @property
    def training(self) -> bool:
        return self.loss is not None

    def build(self) -> Built:
        torch.manual_seed(0)
        model, inputs = self.make()
        given = tuple(x.to(self.dtype) if x.is_floating_point() else x for x in inputs)
        model = model.to(self.dtype).train(self.training).requires_grad_(self.training)
        return model, given

    def flops(self) -> float:
        """Of the matrix products and convolutions; backward products too."""
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.utils.flop_counter import FlopCounterMode

        model, inputs = self.build()
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            if self.loss is not None:
                self.loss(model(*inputs[:-1]), inputs[-1]).backward()
            else:
                model(*inputs)
        return float(counter.get_total_flops())


def _mlp(batch: int, hidden: int) -> Callable[[], Built]:
    return lambda: (Mlp(hidden), (torch.randn(batch, hidden),))


def _image(depth: int) -> Callable[[], Built]:
    return lambda: (ResNet(depth), (torch.rand(1, 3, 224, 224),))


def _bert() -> Built:
    return Bert(), (torch.randn(1, 128, 768), _mask(128))


def _mask(length: int) -> torch.Tensor:
    mask = torch.zeros(1, 1, 1, length)
    mask[..., length - length // 4 :] = -1e4
    return mask


def _train_resnet() -> Built:
    return ResNet(18), (torch.rand(2, 3, 224, 224), torch.tensor([3, 7]))


def _train_two_layers() -> Built:
    x = torch.rand(10, 1)
    return TwoLayers(), (x, x * x)


_SIZES = ((1024, 512), (512, 1024), (1, 512), (1, 1024))
WORKLOADS: dict[str, Workload] = {
    w.name: w
    for w in (
        *(Workload(f"mlp_{b}x{h}", _mlp(b, h)) for b, h in _SIZES),
        *(Workload(f"mlp_{b}x{h}_bf16", _mlp(b, h), torch.bfloat16) for b, h in _SIZES),
        Workload("attention", lambda: (SelfAttention(), (torch.randn(1, 128, 768), _mask(128)))),
        Workload("resnet18", _image(18)),
        Workload("resnet50", _image(50)),
        Workload("resnet18_allowed", _image(18), allowed=True),
        Workload("resnet18_training", _train_resnet, loss=nn.functional.cross_entropy),
        Workload("bert", _bert),
        Workload("bert_allowed", _bert, allowed=True),
        Workload("gpt2", lambda: (Gpt2(), (torch.randint(0, 50257, (1, 256)),))),
        Workload("two_layers", lambda: (TwoLayers(), (torch.rand(10, 1),))),
        Workload("two_layers_training", _train_two_layers, loss=nn.functional.mse_loss),
    )
}
