"""Quantised programs keep quantize and dequantize nodes, in clusters; partitions are labelled."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  # registers the ops

import glasshouse as gh
from frontend_torch import same_as_torch
from glasshouse.errors import TypeMismatch
from glasshouse.frontend.torch import capture, opaque_ops
from glasshouse.numpy_ref.executor import run

Q = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)


def module(function):
    class Function(nn.Module):
        def forward(self, *args):
            return function(*args)

    return Function()


class Linear(nn.Module):
    """What PT2E makes of a linear layer with a ReLU: weights by channel, activations by tensor."""

    def __init__(self, way="numbers"):
        super().__init__()
        self.way = way
        self.register_buffer("weight", torch.randint(-128, 127, (6, 4), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(6) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(6, dtype=torch.int64))
        self.register_buffer("scale", torch.tensor([0.03]))
        self.register_buffer("zero", torch.tensor([3]))
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x):
        if self.way == "dynamic":
            scale, zero = Q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
        elif self.way == "symmetric":
            scale, zero = Q.choose_qparams_symmetric.tensor(x, -127, 127, 1e-5, torch.int8)
        else:
            scale, zero = (0.03, 3) if self.way == "numbers" else (self.scale, self.zero)
        kind = "default" if self.way == "numbers" else "tensor"
        q = getattr(Q.quantize_per_tensor, kind)(x, scale, zero, *INT8)
        x = getattr(Q.dequantize_per_tensor, kind)(q, scale, zero, *INT8)
        w = Q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, *INT8)
        y = nn.functional.linear(x, w, self.bias).relu()
        q = Q.quantize_per_tensor(y, 0.05, -10, *INT8)
        return Q.dequantize_per_tensor(q, 0.05, -10, *INT8)


@pytest.mark.parametrize("way", ["numbers", "tensors", "dynamic", "symmetric"])
def test_quantised_layers_equal_pytorch(way):
    torch.manual_seed(0)
    captured = same_as_torch(Linear(way), torch.randn(5, 4))
    names = [n.op.name for n in captured.graph.nodes]
    assert names.count("quantize") == 2
    assert names.count("dequantize") == 3
    assert not opaque_ops(captured.graph)


def test_per_channel_and_per_token():
    def channels(x, scales, zeros):
        q = Q.quantize_per_channel(x, scales, zeros, 1, 0, 255, torch.uint8)
        return q, Q.dequantize_per_channel(q, scales, None, 1, 0, 255, torch.uint8)

    x = torch.randn(3, 4, 5)
    same_as_torch(module(channels), x, torch.rand(4) * 0.1 + 0.01, torch.arange(4))

    def tokens(x):
        scales, zeros = Q.choose_qparams_per_token_asymmetric(x, torch.int8)
        q = Q.quantize_per_token(x, scales, zeros, *INT8)
        return Q.dequantize_per_token(q, scales, zeros, *INT8, torch.float32)

    same_as_torch(module(tokens), torch.randn(3, 8), tolerance=1e-3)


def test_a_cluster_is_dequantize_op_quantize():
    torch.manual_seed(0)
    graph = gh.trace(Linear(), torch.randn(5, 4))
    clusters = {}
    for node in graph.nodes:
        clusters.setdefault(node.origin.label("cluster"), []).append(node.op.name)
    (name,) = clusters.keys() - {None}
    inside = clusters[name]
    assert name.startswith("linear")
    assert {"dequantize", "matmul", "relu", "quantize"} <= set(inside)
    assert inside.count("dequantize") == 2  # of the input and the weight
    assert clusters[None].count("quantize") == 1  # the input's
    assert clusters[None].count("dequantize") == 1  # the result's


def test_what_stayed_in_float_is_no_cluster():
    def forward(x):
        x = Q.dequantize_per_tensor(x, 0.1, 0, *INT8)
        for _ in range(3):
            x = (x.sin() + 1).exp()
        return Q.quantize_per_tensor(x, 0.1, 0, *INT8)

    graph = gh.trace(module(forward), torch.ones(3, dtype=torch.int8))
    assert all(n.origin.label("cluster") is None for n in graph.nodes)


# -------------------------------------------------------------------------------------- partitions
def test_partitions_come_from_delegation_tags():
    program = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (torch.ones(2, 4),))
    for node in program.graph.nodes:
        if "relu" in node.name:
            node.meta["delegation_tag"] = "npu_0"
    graph = gh.trace(program)
    tagged = {n.op.name for n in graph.nodes if n.origin.label("partition") == "npu_0"}
    assert tagged == {"relu"}


def test_partitions_come_from_a_function_of_the_users():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def choose(node):
        return "matrix unit" if node.op.name == "matmul" else None

    graph = gh.trace(model, torch.ones(2, 4), partition=choose)
    labelled = {n.op.name: n.origin.label("partition") for n in graph.nodes}
    assert labelled["matmul"] == "matrix unit"
    assert labelled["relu"] is None


@torch.library.custom_op("glasshouse_tests::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@unknown.register_fake
def _(x):
    return torch.empty_like(x)


def test_our_own_partitioner_names_what_falls_back():
    graph = gh.trace(module(lambda x: unknown(x * 2)), torch.rand(2, 3), partition="cpu")
    parts = {n.op.name: n.origin.label("partition") for n in graph.nodes}
    assert parts["opaque"] == "fallback"
    assert parts["multiply"] == "cpu"


def test_another_partition_is_refused():
    with pytest.raises(TypeMismatch, match="a function of a node"):
        gh.trace(nn.ReLU(), torch.ones(2), partition="gpu")


def test_quantised_layers_compile():
    torch.manual_seed(0)
    model, x = Linear(), torch.randn(5, 4)
    captured = capture(model, (x,))
    out = gh.compile(captured.graph)(x.numpy())
    np.testing.assert_allclose(np.asarray(out), model(x).detach().numpy(), 1e-4, 1e-4)


class Scaled(torch.Tensor):
    """A weight held as bytes and a scale, in the way of torchao's."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype)

    def __init__(self, data, scale):
        self.data8, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data8", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner, _, size, stride):
        return Scaled(inner["data8"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        if op is torch.ops.aten.detach.default:
            return Scaled(args[0].data8, args[0].scale)
        plain = [a.data8.to(a.scale.dtype) * a.scale if isinstance(a, Scaled) else a for a in args]
        return op(*plain, **(kwargs or {}))


def test_weights_that_wrap_several_tensors_are_taken_apart():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4).eval().requires_grad_(False)
    data = torch.randint(-127, 128, (4, 8), dtype=torch.int8)
    scaled = Scaled(data, torch.rand(4, 1) / 127)
    model.weight = torch.nn.Parameter(scaled, requires_grad=False)
    x = torch.randn(3, 8)
    graph = gh.trace(model, x)
    kept = [n.attrs["data"] for n in graph.nodes if n.op.name == "constant"]
    assert any(k.dtype == np.int8 and k.shape == (4, 8) for k in kept)
    (got,) = run(graph, [x.numpy()])
    np.testing.assert_allclose(got, model(x).numpy(), rtol=1e-5, atol=1e-6)
