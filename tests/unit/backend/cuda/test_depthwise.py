"""Depthwise convolutions and both of their gradients on GPUs, by the emulator: channels and pixels
that a thread takes together, taps outside of images, weights that are known before or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda import depthwise
from glasshouse.backend.cuda.depthwise import BACK, BY_WEIGHTS, DEPTHWISE
from glasshouse.backend.cuda.render import render
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.program import Call, Program
from glasshouse.numpy_ref import run

Array = np.ndarray[Any, Any]

# channels, image, kernel, then what differs from single steps without a border
CASES: dict[str, tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": (16, (8, 8), (3, 3), {"padding": (1, 1)}),
    "7x7": (8, (6, 12), (7, 7), {"padding": (3, 3)}),
    "by 2": (8, (9, 7), (3, 3), {"stride": (2, 2), "padding": (1, 1)}),
    "by 3 and 2, uneven": (6, (8, 10), (2, 4), {"stride": (3, 2), "padding": (0, 2, 1, 1)}),
    "gaps": (4, (9, 12), (3, 3), {"dilation": (2, 3), "padding": (2, 3)}),
    "odd": (5, (4, 6), (1, 3), {"padding": (0, 1)}),
    "a line": (24, (20,), (5,), {"padding": (2,)}),
    "no border": (40, (5, 8), (2, 2), {}),
}
USUAL = ("3x3", "by 2", "odd")
FEW = [n if n in USUAL else pytest.param(n, marks=pytest.mark.slow) for n in CASES]


def attrs_of(name: str) -> dict[str, Any]:
    channels, image, _, attrs = CASES[name]
    one = (1,) * len(image)
    return {
        "stride": one,
        "padding": (0,) * len(image),
        "dilation": one,
        "groups": channels,
        **attrs,
    }


def noise(*shape: int, dtype: str) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def tiles(program: Program) -> list[str]:
    calls = [s for s in program.steps if isinstance(s, Call)]
    assert len(calls) == len(program.steps), "all have kernels"
    return [s.routine for call in calls for s in call.kernel.body if isinstance(s, Tile)]


def all_three(name: str, dtype: str, constant: bool) -> tuple[Program, list[Array], list[Array]]:
    """A convolution with what follows it, and its gradients by image and weights."""
    channels, image, kernel, _ = CASES[name]
    attrs = attrs_of(name)
    x, w = noise(2, channels, *image, dtype=dtype), noise(channels, 1, *kernel, dtype=dtype)
    b = GraphBuilder()
    given = b.input(as_dtype(dtype), x.shape)
    weights = b.constant(w) if constant else b.input(as_dtype(dtype), w.shape)
    made = given.apply("conv", weights, **attrs)
    g = noise(*made.shape, dtype=dtype)
    by = b.input(as_dtype(dtype), g.shape)
    window = {k: attrs[k] for k in ("stride", "padding", "dilation")}
    # What strides leave over at the ends of the image comes back as nothing.
    short = [
        size - ((o - 1) * s + (k - 1) * d + 1 - begin - end)
        for size, o, k, s, d, begin, end in zip(
            image, g.shape[2:], kernel, window["stride"], window["dilation"],
            *borders(attrs["padding"], len(image)), strict=True,
        )
    ]  # fmt: skip
    back = by.apply("conv_transpose", weights, output_padding=tuple(short), **attrs)
    assert back.shape == given.shape
    by_weights = given.apply("conv_weight_grad", by, kernel=kernel, **attrs)
    graph = b.finish(made.apply("relu"), back * 2.0, by_weights * 0.5)
    arrays = [x, g] if constant else [x, w, g]
    return program_of(graph), arrays, run(graph, arrays)


def borders(padding: tuple[int, ...], axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return padding[:axes], padding[-axes:]


@pytest.mark.parametrize("few", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize(("dtype", "constant"), [("float16", True), ("float32", False)])
@pytest.mark.parametrize("name", FEW)
def test_results_and_gradients(
    name: str, dtype: str, constant: bool, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many results threads take 16 bytes of channels and up to four pixels; few weights are
    read as they lie."""
    if not few:
        monkeypatch.setattr(depthwise, "ENOUGH_THREADS", 1)
        monkeypatch.setattr(depthwise, "SMALL_WEIGHTS", 0)
    program, arrays, wanted = all_three(name, dtype, constant)
    assert sorted(tiles(program)) == sorted([DEPTHWISE, BACK, BY_WEIGHTS])
    for ours, theirs in zip(run_emulated(program, arrays), wanted, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(
            ours.astype("f8"), theirs.astype("f8"), rtol=2e-3 if dtype == "float16" else 1e-5,
            atol=2e-3 if dtype == "float16" else 1e-5,
        )  # fmt: skip


def test_threads_take_channels_and_pixels_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def kinds(least: int) -> str:
        monkeypatch.setattr(depthwise, "ENOUGH_THREADS", least)
        program, *_ = all_three("3x3", "float16", constant=True)
        return "".join(render(k).text for k in program.kernels)

    assert "gh::depthwise<8, 4, 3, 8, false, true>" in kinds(1)
    assert "gh::depthwise<8, 4, 3, 8, true, true>" in kinds(1)
    assert "gh::depthwise<1, 1, 0, 1, false, true>" in kinds(1 << 20)


def test_taps_outside_add_nothing_whatever_they_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depthwise, "ENOUGH_THREADS", 1)
    b = GraphBuilder()
    x = np.ones((1, 4, 4, 4), "f")
    w = np.zeros((4, 1, 3, 3), "f")
    w[:, :, 0, 0] = np.inf
    attrs = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 4}
    graph = b.finish(b.input(as_dtype("float32"), x.shape).apply("conv", b.constant(w), **attrs))
    (found,) = run_emulated(program_of(graph), [x])
    assert np.isinf(found[:, :, 1:, 1:]).all()
    assert (found[:, :, 0] == 0).all()
    assert (found[:, :, :, 0] == 0).all()


def test_many_pixels_are_added_in_parts_and_in_one_order() -> None:
    x, g = noise(3, 4, 40, 40, dtype="float32"), noise(4, 3, 40, 40, dtype="float32")
    g = g.reshape(x.shape)[::-1].copy()

    def by_weights(dtype: str) -> Graph:
        b = GraphBuilder()
        given, by = (b.input(as_dtype(dtype), x.shape) for _ in range(2))
        attrs = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 4}
        return b.finish(given.apply("conv_weight_grad", by, kernel=(3, 3), **attrs))

    program = program_of(by_weights("float32"))
    (kernel,) = program.kernels
    assert render(kernel).launches[0].grid[0] > 1
    first, again = (run_emulated(program, [x, g])[0] for _ in range(2))
    assert first.tobytes() == again.tobytes()
    (exact,) = run(by_weights("float64"), [x.astype("f8"), g.astype("f8")])
    np.testing.assert_allclose(first, exact, rtol=1e-6, atol=2e-5)
