"""Whole quantised models against exact whole numbers: no edge of bytes is off where it is decided.

A model is quantised by ONNX Runtime's tool and compiled. Behind every kernel its bytes are compared
with what its ops give for the bytes that it was given: products and convolutions of whole numbers,
the rest in float64, halves to even, saturated. They may differ by one step, and only where the
exact value lies so close to the middle of two steps that rounding in float32 decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.group import group_of
from glasshouse.lower.program import Step
from glasshouse.lower.quant import BYTES
from glasshouse.numerics.widen import wide
from models.torch_models import ResNet

Array = np.ndarray[Any, Any]
CLOSE = 0.01
"""Of a step. Sums of some hundred float32 of up to 255 steps are off by a thousandth."""


@dataclass(frozen=True)
class Steps:
    """Whole numbers, each worth `scale`."""

    whole: Array  # int64, without the zero point
    scale: Array

    @property
    def real(self) -> Array:
        return self.whole.astype(np.float64) * self.scale


@dataclass
class Exact:
    """Ops of a kernel on the operands that it was given; `between` holds, for every quantised
    value, where its real number lies between steps."""

    values: dict[Value, Array | Steps] = field(default_factory=dict)
    between: dict[Value, Array] = field(default_factory=dict)
    whole_products: int = 0

    def real(self, value: Value) -> Array:
        found = self.values[value]
        return found.real if isinstance(found, Steps) else found

    def run(self, node: Node) -> None:
        name = node.op.name
        if name == "constant":
            made = [wide(np.asarray(node.attrs["data"]), node.output.type.dtype)]
        elif name == "dequantize":
            made = [self._dequantized(node)]
        elif name == "quantize":
            made = [self._quantized(node)]
        elif name in ("matmul", "conv") and all(
            isinstance(self.values[v], Steps) for v in node.inputs
        ):
            made = [self._product(node)]
        else:
            made = _meaning(node, [self.real(v) for v in node.inputs])
        self.values.update(zip(node.outputs, made, strict=True))

    def _beside(self, node: Node, like: Array) -> tuple[Array, Array]:
        axis = node.attrs["axis"]
        shape = [1] * like.ndim
        if axis is not None:
            shape[axis] = -1
        scale, zero = (self.real(v).reshape(shape) for v in node.inputs[1:])
        return scale.astype(np.float64), zero.astype(np.int64)

    def _dequantized(self, node: Node) -> Steps:
        stored = self.real(node.inputs[0])
        scale, zero = self._beside(node, stored)
        return Steps(stored.astype(np.int64) - zero, scale)

    def _quantized(self, node: Node) -> Array:
        x = self.real(node.inputs[0])
        scale, zero = self._beside(node, x)
        carrier = node.output.type.dtype.carrier
        limits = np.iinfo(carrier)
        self.between[node.output] = x / scale - np.floor(x / scale)
        return np.clip(np.rint(x / scale) + zero, limits.min, limits.max).astype(carrier)

    def _product(self, node: Node) -> Array:
        """In whole numbers, then scaled: weights have a scale for each column or filter."""
        x, w = (self.values[v] for v in node.inputs)
        assert isinstance(x, Steps)
        assert isinstance(w, Steps)
        # Sums below 2**53 are exact in float64, in whatever order.
        (whole,) = _meaning(node, [x.whole.astype(np.float64), w.whole.astype(np.float64)])
        assert np.array_equal(whole, np.rint(whole))
        assert np.abs(whole).max(initial=0) < 2**31
        self.whole_products += 1
        scale = w.scale
        if node.op.name == "conv":
            scale = scale.reshape(-1, *[1] * (whole.ndim - 2))
        elif node.attrs["transpose_y"]:
            scale = scale.swapaxes(-1, -2)
        return np.asarray(whole * (x.scale * scale))


def _meaning(node: Node, arrays: list[Array]) -> list[Array]:
    """The op's NumPy meaning on float64, with nothing rounded behind it."""
    with np.errstate(all="ignore"):
        made = node.op.ref(*arrays, **node.attrs)
    return list(made) if isinstance(made, tuple) else [made]


@dataclass
class Edges:
    """Looks at every step of a run."""

    steps_seen: int = 0
    whole_products: int = 0
    wrong: list[str] = field(default_factory=list)

    def see(self, step: Step, read: Callable[[Value], Array]) -> None:
        group = group_of(step.node)
        exact = Exact()
        for inner, outer in zip(group.body.inputs, group.operands, strict=True):
            exact.values[inner] = wide(np.array(read(outer)), outer.type.dtype)
        for node in group.body.nodes:
            if node.op.name != "input":
                exact.run(node)
        self.whole_products += exact.whole_products
        for inner, outer in zip(group.body.outputs, step.node.outputs, strict=True):
            wanted, found = exact.values[inner], wide(np.array(read(outer)), outer.type.dtype)
            if isinstance(wanted, Steps):  # widened by the kernel that made it
                self._compare(step.node, np.rint(found / wanted.scale), wanted.whole, exact.between)
            elif outer.type.dtype in BYTES:
                self._compare(step.node, found, wanted, exact.between)

    def _compare(
        self, node: Node, found: Array, wanted: Array, between: Mapping[Value, Array]
    ) -> None:
        off = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
        self.steps_seen += off.size
        if off.max(initial=0) > 1:
            self.wrong.append(f"{node}: {off.max()} steps off")
        # Where a kernel has edges inside, an element there may have been close instead.
        if len(between) == 1:
            (place,) = between.values()
            decided = np.abs(place - 0.5).reshape(off.shape) > CLOSE
            if (off > 0)[decided].any():
                self.wrong.append(f"{node}: off where nothing was close")


def quantised(model: nn.Module, inputs: list[torch.Tensor], folder: Path) -> Path:
    """The model through our exporter, since PyTorch's needs one more package, and ONNX Runtime's
    tool."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    plain, prepared, path = (folder / f"{n}.onnx" for n in ("plain", "prepared", "int8"))
    gh.export_onnx(gh.trace(model.eval(), *inputs), plain)
    names = [i.name for i in onnx.load(plain).graph.input]
    quant_pre_process(plain, prepared, skip_symbolic_shape=True)
    samples = iter([dict(zip(names, [x.numpy() for x in inputs], strict=True))])

    class Samples:
        def get_next(self) -> Any:
            return next(samples, None)

    quantize_static(
        prepared, path, Samples(), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    return path


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(48, 96), nn.Linear(96, 48), nn.LayerNorm(48)

    def forward(self, x: Any) -> Any:
        return self.norm(self.second(nn.functional.gelu(self.first(x))) + x)


class Attention(nn.Module):
    """Scores scaled as exporters leave them, an additive mask, two norms: a layer of BERT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.last = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Any, mask: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = (
            f(x).reshape(batch, length, self.heads, -1).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        weights = (q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5 + mask).softmax(-1)
        x = self.first(self.out((weights @ v).transpose(1, 2).reshape(x.shape)) + x)
        return self.last(self.narrow(nn.functional.gelu(self.wide(x))) + x)


class Layers(nn.Module):
    def __init__(self, layers: list[Attention]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Any, mask: Any) -> Any:
        for layer in self.layers:
            x = layer(x, mask)
        return x


def bert() -> tuple[nn.Module, list[torch.Tensor]]:
    mask = torch.zeros(2, 1, 1, 24)
    mask[1, ..., 17:] = -10000.0
    return Layers([Attention(64, 4) for _ in range(2)]), [torch.randn(2, 24, 64), mask]


def resnet() -> tuple[nn.Module, list[torch.Tensor]]:
    return ResNet((2, 2, 2, 2), False, 10), [torch.rand(1, 3, 64, 64)]


def mlp() -> tuple[nn.Module, list[torch.Tensor]]:
    return Mlp(), [torch.randn(33, 48)]


MODELS = {"mlp": (mlp, 2), "resnet": (resnet, 21), "bert": (bert, 2 * 8)}
"""With how many products and convolutions of bytes."""


@pytest.mark.filterwarnings("ignore")  # the exporter and the tool deprecate things of their own
@pytest.mark.parametrize(
    "name", [n if n == "mlp" else pytest.param(n, marks=pytest.mark.slow) for n in MODELS]
)
def test_no_edge_of_bytes_is_more_than_a_step_off(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, products = MODELS[name]
    model, inputs = make()
    path = quantised(model, inputs, tmp_path)
    arrays = [x.numpy() for x in inputs]
    edges = Edges()
    gh.compile(str(path), *arrays).watch(arrays, edges.see)
    assert not edges.wrong
    assert (edges.whole_products, edges.steps_seen > 6000) == (products, True)
