"""Models written in primitive ops: what is recognised, merged and fused, and still right."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import glasshouse as gh
import primitive_models
from glasshouse.ir import Graph, Kind, symbol
from glasshouse.nn.models.resnet import resnet18
from glasshouse.numerics import compare_all, random_inputs
from glasshouse.numpy_ref import run
from glasshouse.passes import PassContext, optimize


def ops_of(graph: Graph) -> Counter[str]:
    """All ops, those inside fused nodes too."""
    out: Counter[str] = Counter()
    for node in graph.nodes:
        body = node.attrs.get("body")
        inside = body.nodes if isinstance(body, Graph) else [node]
        out.update(n.op.name for n in inside if n.op.kind is not Kind.SOURCE)
    return out


def kernels_of(graph: Graph) -> list[str]:
    return [
        n.attrs.get("fusion") or n.op.label for n in graph.nodes if n.op.kind is not Kind.SOURCE
    ]


def checked(graph: Graph, **sizes: int) -> Graph:
    """The optimised graph, compared with the original after every pass."""
    ctx = PassContext()
    check = ctx.check_numerics_instrument(lambda g: random_inputs(g, sizes=sizes), tolerance=1e-5)
    after = optimize(graph, ctx)
    assert len(check.errors) == len(ctx.graph_passes())
    return after


def test_self_attention_ends_in_few_kernels_with_one_projection() -> None:
    after = checked(primitive_models.self_attention())
    kernels = kernels_of(after)
    assert len(kernels) <= 7
    assert ops_of(after)["matmul"] == 1
    assert ops_of(after)["attention"] == 1
    assert kernels[0] == "Matmul Add"


LAYERS = 2
PRIMITIVES = {"exp", "erf", "tanh", "sqrt", "rsqrt", "mean", "power", "softmax", "divide", "max"}


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("bert", {"attention": 1, "layer_norm": 2, "gelu": 1, "matmul": 4}),
        ("gpt2", {"attention": 1, "layer_norm": 2, "gelu": 1, "matmul": 4}),
        ("vit", {"attention": 1, "layer_norm": 2, "gelu": 1, "matmul": 4}),
        ("llama", {"attention": 1, "rms_norm": 2, "silu": 1, "matmul": 5}),
    ],
)
def test_patterns_are_recognised_in_every_layer(model: str, wanted: dict[str, int]) -> None:
    ops = ops_of(checked(getattr(primitive_models, model)(layers=LAYERS)))
    for name, count in wanted.items():
        # Beside the layers: a norm at the end, and the head of the image model.
        assert LAYERS * count <= ops[name] <= LAYERS * count + 1, name
    assert not PRIMITIVES & set(ops)


def test_masks_become_what_attention_takes() -> None:
    for model, causal, operands in (("bert", False, 4), ("gpt2", True, 3), ("llama", True, 3)):
        after = optimize(getattr(primitive_models, model)(layers=1))
        bodies = [n.attrs["body"] for n in after.nodes if n.op.name == "fused"]
        (node,) = [n for body in bodies for n in body.nodes if n.op.name == "attention"]
        assert node.attrs["causal"] is causal, model
        assert len(node.inputs) == operands, model


def test_shared_heads_are_not_repeated() -> None:
    after = optimize(primitive_models.llama(layers=1))
    assert ops_of(after)["expand"] == 0


def test_gate_and_up_stay_apart_and_are_finished_together() -> None:
    assert "Matmul Silu Multiply" in kernels_of(optimize(primitive_models.llama(layers=1)))


def test_symbolic_lengths_go_all_the_way_through() -> None:
    length = symbol("length", 1, 64)
    after = checked(primitive_models.bert(layers=1, length=length), length=5)
    ops = ops_of(after)
    assert (ops["attention"], ops["layer_norm"], ops["gelu"]) == (1, 2, 1)
    assert "length" in str(after)


@pytest.mark.parametrize("bias", [False, True])
def test_batch_norm_disappears_into_convolutions(bias: bool) -> None:
    after = checked(primitive_models.resnet_block(bias=bias))
    ops = ops_of(after)
    assert ops["batch_norm"] == 0
    assert ops["multiply"] == 0
    assert len(kernels_of(after)) == 3


def test_resnet_18_keeps_no_batch_norm() -> None:
    gh.manual_seed(0)
    model = resnet18(num_classes=10)
    rng = np.random.default_rng(0)
    for name, value in model.state_dict().items():
        if "running_var" in name:
            value.assign(gh.array(rng.uniform(0.5, 2, value.shape).astype(np.float32)))
        elif "running_mean" in name or ("bn" in name and "bias" in name):
            value.assign(gh.array(rng.normal(0, 0.1, value.shape).astype(np.float32)))
    model.eval()
    image = rng.standard_normal((1, 3, 32, 32)).astype(np.float32)
    graph = gh.trace(model, image)
    after = optimize(graph)
    ops = ops_of(after)
    assert ops["conv"] == 20
    assert ops["add"] >= 20  # shifts became biases
    assert ops["batch_norm"] == ops["multiply"] == 0
    assert len(kernels_of(after)) <= 23  # convolutions, two pools and the last product
    assert compare_all(run(after, [image]), run(graph, [image])).scaled < 1e-5
