"""What training adds to images: batch statistics, gradients of convolutions and pools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glasshouse.ir import GraphBuilder
from glasshouse.numpy_ref import run
from glasshouse.runtime.compiler import compile_graph
from glasshouse.runtime.module import Module
from glasshouse.tensor.grad import differentiate

Array = np.ndarray[Any, Any]


def compiled(op: str, *arrays: Array, **attrs: Any) -> tuple[Module, list[Array]]:
    """A module of one op, and what the reference says."""
    builder = GraphBuilder()
    inputs = [builder.input("float32", a.shape) for a in arrays]
    out = inputs[0].apply(op, *inputs[1:], **attrs)
    outputs = out if isinstance(out, (list, tuple)) else [out]
    graph = builder.finish(*outputs)
    return compile_graph(graph), [np.asarray(y) for y in run(graph, list(arrays))]


def results(module: Module, *arrays: Array) -> list[Array]:
    got = module(*arrays)
    return list(got) if isinstance(got, tuple) else [got]


def noise(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, "f")


# Outputs beyond whole panels, taps that are not square, more padding than a window can see.
@pytest.mark.parametrize(
    ("g", "w", "padding"),
    [
        ((2, 64, 14, 14), (64, 40, 3, 3), (1, 1)),
        ((1, 33, 9, 7), (33, 70, 3, 3), (0, 2, 2, 0)),
        pytest.param((2, 5, 8, 9), (5, 37, 5, 3), (2, 1), marks=pytest.mark.slow),
        pytest.param((1, 48, 12, 12), (48, 32, 1, 1), (0, 0), marks=pytest.mark.slow),
        pytest.param((1, 16, 12, 12), (16, 8, 1, 1), (1, 1), marks=pytest.mark.slow),
    ],
)
def test_the_gradient_by_the_input_is_a_convolution_with_turned_weights(
    g: tuple[int, ...], w: tuple[int, ...], padding: tuple[int, ...]
) -> None:
    arrays = noise(*g), noise(*w)
    module, wanted = compiled("conv_transpose", *arrays, padding=padding)
    got = results(module, *arrays)[0]
    np.testing.assert_allclose(got, wanted[0], rtol=0, atol=2e-6 * np.abs(wanted[0]).max())


@pytest.mark.parametrize("shape", [(2, 64, 9, 11), (3, 5, 4, 4), (70, 33), (2, 130, 40)])
def test_batch_statistics_far_from_zero_keep_their_digits(shape: tuple[int, ...]) -> None:
    x = noise(*shape) + np.float32(1000)
    channels = shape[1]
    arrays = x, noise(channels), noise(channels)
    module, _ = compiled("batch_norm_training", *arrays, eps=1e-5)
    out, mean, var = results(module, *arrays)
    others = tuple(a for a in range(x.ndim) if a != 1)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(others), rtol=1e-6)
    np.testing.assert_allclose(var, wide.var(others), rtol=1e-4)
    beside = (1, channels) + (1,) * (x.ndim - 2)
    exact = (wide - wide.mean(others, keepdims=True)) / np.sqrt(
        wide.var(others, keepdims=True) + 1e-5
    )
    exact = exact * arrays[1].reshape(beside) + arrays[2].reshape(beside)
    np.testing.assert_allclose(out, exact, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)},
        {"kernel": (2, 3), "stride": (1, 2), "padding": (0, 1), "dilation": (2, 1)},
        {"kernel": (2, 2), "stride": (3, 3)},
    ],
)
def test_a_maximum_hands_its_gradient_to_the_first_of_equals(attrs: dict[str, Any]) -> None:
    x = np.random.default_rng(0).integers(-2, 3, (2, 19, 11, 10)).astype("f")
    x[0, 3, 4, 4] = x[0, 3, 5, 5] = np.nan
    x[1, 4] = -np.inf
    module, pooled = compiled("max_pool", x, **attrs)
    g = noise(*pooled[0].shape)
    module, wanted = compiled("max_pool_grad", g, x, **attrs)
    np.testing.assert_allclose(results(module, g, x)[0], wanted[0], rtol=1e-6, atol=1e-6)


def test_windows_too_large_for_the_template() -> None:
    """70 taps along an axis, and 256 in all."""
    for kernel in ((1, 70), (16, 16)):
        x = noise(1, 3, 20, 80)
        _, pooled = compiled("max_pool", x, kernel=kernel, stride=(1, 1))
        g = noise(*pooled[0].shape)
        module, wanted = compiled("max_pool_grad", g, x, kernel=kernel, stride=(1, 1))
        np.testing.assert_allclose(results(module, g, x)[0], wanted[0], rtol=1e-5, atol=1e-5)


def test_images_of_a_training_step_lie_channels_last() -> None:
    builder = GraphBuilder()
    x, w = builder.input("float32", (2, 8, 12, 12)), builder.input("float32", (8, 8, 3, 3))
    scale, shift = (builder.input("float32", (8,)) for _ in range(2))
    y, _, _ = x.apply("conv", w, padding=(1, 1)).apply("batch_norm_training", scale, shift)
    y = y.apply("relu").apply("max_pool", kernel=(2, 2), stride=(2, 2))
    y = y.apply("conv", w, padding=(1, 1))
    loss = (y * y).apply("sum")
    graph = differentiate(builder.finish(loss), wrt=[w.value, scale.value, shift.value])
    program = compile_graph(graph).program
    images = [
        v
        for n in program.graph.nodes
        if n.inputs and n.op.name != "expand"  # of a number: it lies as one likes
        for v in n.outputs
        if v.type.rank == 4 and v.type.shape[2] > 3 and not program.graph.is_held(v)
    ]
    assert len(images) >= 6
    assert [v for v in images if v not in program.orders] == []
