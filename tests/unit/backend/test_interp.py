"""The interpreter as a target: whole models through plan, table and arena, without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.errors import FormatError, Unsupported
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dim import SymDim, evaluate, symbol, symbols_of
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.program import Call
from glasshouse.nn import models
from glasshouse.numpy_ref import run
from glasshouse.record.schema import KernelRow
from primitive_models import bert, gpt2, llama, resnet_block, self_attention, vit


def int8_layers() -> Graph:
    """Two linear layers whose weights and activations are stored as int8."""
    b, random = GraphBuilder(), np.random.default_rng(0)
    scale, zero = b.constant(np.float32(0.05)), b.constant(np.array(0, np.int8))

    def stored(x: Any) -> Any:
        narrow = x.apply("quantize", scale, zero, dtype=as_dtype("int8"))
        return narrow.apply("dequantize", scale, zero)

    x = stored(b.input("float32", (4, 32)))
    for size in (48, 16):
        data = b.weight(random.integers(-127, 128, (x.shape[-1], size)).astype(np.int8), "int8")
        x = stored(x.apply("matmul", data.apply("dequantize", scale, zero)).apply("relu"))
    return b.finish(x)


MODELS = {
    "int8": int8_layers,
    "attention": lambda: self_attention(16, 32, 4),
    "bert": bert,
    "bert of any length": lambda: bert(length=symbol("length", 2, 12)),
    "gpt2": gpt2,
    "vit": vit,
    "llama": llama,
    "resnet block": resnet_block,
}


def arrays_for(graph: Graph, seed: int = 0) -> list[Any]:
    random = np.random.default_rng(seed)
    out: list[Any] = []
    for value in graph.inputs:
        shape = [
            evaluate(d, dict.fromkeys(symbols_of(d), 7)) if isinstance(d, SymDim) else d
            for d in value.type.shape
        ]
        if value.type.dtype.is_float:
            out.append(random.standard_normal(shape).astype(value.type.dtype.carrier))
        else:
            out.append(random.integers(0, 8, shape).astype(value.type.dtype.carrier))
    return out


@pytest.mark.parametrize("name", MODELS)
def test_models_equal_the_reference(name: str) -> None:
    graph = MODELS[name]()
    module = gh.compile(graph, target="interp")
    assert all(isinstance(step, Call) for step in module.program.steps)
    given = arrays_for(graph)
    for ours, wanted in zip(module.run_flat(given), run(graph, given), strict=True):
        scale = float(np.max(np.abs(wanted), initial=1.0))
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5 * scale)


def test_a_training_step_updates_its_variables() -> None:
    gh.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    optimizer = gh.optim.Adam(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x, y = np.ones((4, 6), np.float32), np.zeros((4, 3), np.float32)
    graph = gh.trace(step, x, y)
    module = gh.compile(graph, target="interp")
    state: dict[str, Any] = {}
    for _ in range(3):
        wanted = run(graph, [x, y], variables=state)[0]
        np.testing.assert_allclose(module(x, y), wanted, rtol=1e-5)


def test_a_training_step_of_convolutions() -> None:
    gh.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(24, 5),
    )  # fmt: skip
    optimizer = gh.optim.SGD(model.named_parameters(), 0.1, momentum=0.9)

    def step(x: Any) -> Any:
        loss = model(x).square().mean()
        optimizer.step(loss)
        return loss

    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    graph = gh.trace(step, x)
    module = gh.compile(graph, target="interp")
    state: dict[str, Any] = {}
    for _ in range(3):
        np.testing.assert_allclose(module(x), run(graph, [x], variables=state)[0], rtol=1e-4)


def test_resnet_18_and_times_of_its_kernels() -> None:
    gh.manual_seed(0)
    model = models.resnet18(num_classes=4).eval()
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
    graph = gh.trace(model, x)
    module = gh.compile(graph, target="interp")
    np.testing.assert_allclose(module(x), run(graph, [x])[0], rtol=1e-3, atol=1e-4)
    assert all(t.seconds > 0 for t in module.profile(x, count=1))
    kernels = module.recording().graphs[0].table(KernelRow)
    assert {kernel.target for kernel in kernels} == {"interp"}


def test_an_index_outside_is_an_error_here_too() -> None:
    table = np.zeros((3, 2), np.float32)
    module = gh.compile(
        lambda i: gh.array(table).apply("take", i, axis=0), np.array([0]), target="interp"
    )
    with pytest.raises(gh.errors.ExecutionError, match="index"):
        module(np.array([7]))


def test_what_it_does_not_do_is_said(tmp_path: Any) -> None:
    module = gh.compile(lambda x: x + 1.0, np.ones(2, np.float32), target="interp")
    with pytest.raises((Unsupported, FormatError), match="interpreter"):
        module.save(tmp_path / "saved")
