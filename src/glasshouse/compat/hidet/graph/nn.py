"""`hidet.graph.nn`: modules with Hidet's `flow_graph_for`, and its linear layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse import nn, trace
from glasshouse.compat.hidet.device import device_name
from glasshouse.compat.hidet.graph.flow_graph import FlowGraph
from glasshouse.compat.missing import names_what_is_there
from glasshouse.nn import init


class Module(nn.Module):
    """A module that gives its graph."""

    _device = "cpu"

    def flow_graph_for(self, inputs: Sequence[Any]) -> FlowGraph:
        """The graph for inputs like these; it runs on a GPU where the module or an input is."""
        devices = {self._device, *(getattr(x, "device", "cpu") for x in inputs)}
        return FlowGraph.of(trace(self, *inputs), max(map(device_name, devices)))

    def cuda(self, device: Any = None) -> Any:
        """From now on graphs of this module run on the GPU; its weights stay on the host until a
        graph is compiled."""
        self._device = device_name("cuda" if device is None else device)
        return self

    def cpu(self) -> Any:
        self._device = "cpu"
        return self


class Linear(Module):
    """`x @ weight + bias`: Hidet keeps the weight as [in, out]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features, self.out_features = in_features, out_features
        bound = in_features**-0.5
        self.weight = nn.Parameter(init.uniform((in_features, out_features), bound))
        self.register_parameter(
            "bias", nn.Parameter(init.uniform((out_features,), bound)) if bias else None
        )

    def forward(self, x: Any) -> Any:
        y = x @ self.weight
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class Sequential(Module, nn.Sequential):
    """Modules called one after the other."""


class ModuleList(Module, nn.ModuleList):
    """Modules in a list."""


Conv2d = nn.Conv2d
BatchNorm2d = nn.BatchNorm2d
LayerNorm = nn.LayerNorm
Embedding = nn.Embedding
MaxPool2d = nn.MaxPool2d
AdaptiveAvgPool2d = nn.AdaptiveAvgPool2d
Relu = nn.ReLU
Gelu = nn.GELU
Tanh = nn.Tanh
Identity = nn.Identity
Parameter = nn.Parameter

__all__ = [
    "AdaptiveAvgPool2d", "BatchNorm2d", "Conv2d", "Embedding", "Gelu", "Identity", "LayerNorm",
    "Linear", "MaxPool2d", "Module", "ModuleList", "Parameter", "Relu", "Sequential", "Tanh",
]  # fmt: skip
__getattr__ = names_what_is_there("hidet.graph.nn", __all__)
