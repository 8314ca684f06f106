"""Long folds for few rows are computed in parts, where a target is kept busy so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fake_cuda import FakeCuda, fake_cuda
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dim import Dim, symbol
from glasshouse.ir.dtype import as_dtype, from_storage, to_storage
from glasshouse.ir.graph import Graph
from glasshouse.lower.kernel.kernel import TEMPORARY
from glasshouse.lower.kernel.statement import For
from glasshouse.lower.program import Call
from glasshouse.lower.target import Teams
from glasshouse.numpy_ref import run
from glasshouse.runtime.compiler import compile_optimized


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        yield fake


def of(shape: tuple[Dim, ...], last: bool, make: Any, dtype: str = "float32") -> Graph:
    """A function of an image, whose channels may lie last."""
    builder = GraphBuilder()
    batch, channels, *pixels = shape
    given = (batch, *pixels, channels) if last else shape
    x = builder.input(as_dtype(dtype), given)
    image = x.apply("permute", axes=(0, 3, 1, 2)) if last else x
    made = make(builder, image)
    return builder.finish(*(made if isinstance(made, (list, tuple)) else [made]))


def batch_norm(builder: GraphBuilder, x: Any) -> Any:
    weight, bias = (builder.input(as_dtype("float32"), (x.shape[1],)) for _ in range(2))
    return x.apply("batch_norm_training", weight, bias, eps=1e-5)


IMAGE = (2, 16, 96, 96)
MAKES = {
    "batch norm": batch_norm,
    "sum": lambda b, x: x.apply("sum", axes=(0, 2, 3)),
    "mean of squares": lambda b, x: (x * x).apply("mean", axes=(0, 2, 3)),
    "greatest": lambda b, x: x.apply("max", axes=(0, 2, 3)),
    "of all": lambda b, x: x.apply("sum", axes=(0, 1, 2, 3)),
    "of all, twice": lambda b, x: (
        (x - x.apply("max", axes=(0, 1, 2, 3), keepdims=True)).apply("sum", axes=(0, 1, 2, 3)) + 1
    ),
    "of all, beside each other": lambda b, x: (
        x.apply("max", axes=(0, 1, 2, 3)) + x.apply("sum", axes=(0, 1, 2, 3)),
        x.apply("max", axes=(0, 1, 2, 3)) * 2,
    ),
    "two, one of the other": lambda b, x: (
        (x - x.apply("max", axes=(0, 2, 3), keepdims=True)).apply("sum", axes=(0, 2, 3)) + 1
    ),
}


def compared(graph: Graph, images: int = 2) -> Any:
    """With so many images where a size is a symbol."""
    random = np.random.default_rng(0)
    shapes = [[d if isinstance(d, int) else images for d in v.type.shape] for v in graph.inputs]
    arrays = [
        (random.standard_normal(shape) * 3 + 1).astype(v.type.dtype.storage)
        for shape, v in zip(shapes, graph.inputs, strict=True)
    ]
    module = compile_optimized(graph, "cuda")
    ours, again, theirs = module.run_flat(arrays), module.run_flat(arrays), run(graph, arrays)
    for mine, twice, other in zip(ours, again, theirs, strict=True):
        assert np.array_equal(np.asarray(mine), np.asarray(twice)), "two runs differ"
        scale = max(float(np.abs(np.asarray(other, np.float64)).max()), 1)
        np.testing.assert_allclose(np.asarray(mine), np.asarray(other), rtol=0, atol=3e-6 * scale)
    return module


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1], ids=["columns", "rows"])
def test_sums_lose_nothing(cuda: FakeCuda, dtype: str, axis: int) -> None:
    """Each part, and all of them together, are rounded once: at the end."""
    kind = as_dtype(dtype)
    shape = (20000, 16) if axis == 0 else (16, 20000)
    x = np.full(shape, 0.1, np.float32)
    np.moveaxis(x, axis, 0)[0] = 1e7 if dtype == "float32" else 2048
    x[-1, -1] = np.inf
    given = to_storage(x, kind)
    builder = GraphBuilder()
    module = compile_optimized(
        builder.finish(builder.input(kind, shape).apply("sum", axes=(axis,))), "cuda"
    )
    assert temporaries(module) > 0, "nothing was computed in parts"
    (ours,) = (from_storage(np.asarray(y), kind) for y in module.run_flat([given]))
    exact = from_storage(given, kind).astype(np.float64).sum(axis)
    np.testing.assert_array_equal(ours, from_storage(to_storage(exact, kind), kind))


def temporaries(module: Any) -> int:
    kernels = [s.kernel for s in module.program.steps if isinstance(s, Call)]
    return sum(len(k.with_role(TEMPORARY)) for k in kernels)


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("name", MAKES)
def test_parts_give_what_one_fold_does(cuda: FakeCuda, name: str, last: bool) -> None:
    module = compared(of(IMAGE, last, MAKES[name]))
    assert temporaries(module) > 0, "nothing was computed in parts"


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("name", ["batch norm", "mean of squares", "greatest", "of all, twice"])
def test_any_number_of_images_is_summed_in_parts(cuda: FakeCuda, name: str, last: bool) -> None:
    batch, channels, *pixels = IMAGE
    del batch
    module = compared(of((symbol("n", 1), channels, *pixels), last, MAKES[name]), images=3)
    assert temporaries(module) > 0, "nothing was computed in parts"


def test_equal_folds_are_computed_once(cuda: FakeCuda) -> None:
    """The results of a batch norm and its statistics are two nests with the same folds."""
    module = compared(of(IMAGE, True, batch_norm))
    assert temporaries(module) == 4, "parts and whole of two folds"
    (kernel,) = (s.kernel for s in module.program.steps if s.kernel.with_role(TEMPORARY))
    last = next(s for s in reversed(kernel.body) if isinstance(s, For) and s.loop.extent > 16)
    assert isinstance(last.body[0], For), "results in the order in which they lie"
    assert last.body[0].loop.extent == 16


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        pytest.param((4096, 64), (1,), id="many rows"),
        pytest.param((128, 4096), (1,), id="rows of a norm"),
        pytest.param((64, 512), (0,), id="short"),
        pytest.param((3, 21001), (1,), id="few elements"),
        pytest.param((2048, 64), (0,), id="columns of few elements"),
        pytest.param((4096, 8), (0,), id="few very long columns"),
        pytest.param((8, 64), (), id="nothing"),
    ],
)
def test_the_rest_is_in_one_piece(
    cuda: FakeCuda, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    builder = GraphBuilder()
    x = builder.input(as_dtype("float32"), shape)
    assert temporaries(compared(builder.finish(x.apply("sum", axes=axes)))) == 0


@pytest.mark.parametrize("shape", [(4096, 16), (2048, 128)], ids=["very long", "long"])
def test_columns_are_computed_in_parts(cuda: FakeCuda, shape: tuple[int, ...]) -> None:
    builder = GraphBuilder()
    x = builder.input(as_dtype("float32"), shape)
    assert temporaries(compared(builder.finish(x.apply("sum", axes=(0,))))) > 0


@pytest.mark.parametrize("terms", [262147, 2 * 131101, 3 * 5 * 17491])
def test_sizes_with_large_factors(cuda: FakeCuda, terms: int) -> None:
    """A prime number of terms stays in one piece."""
    builder = GraphBuilder()
    x = builder.input(as_dtype("float32"), (terms,))
    module = compared(builder.finish(x.apply("max", axes=(0,)), x.apply("min", axes=(0,))))
    assert (temporaries(module) > 0) == (terms != 262147)


def test_how_many_parts() -> None:
    teams = Teams(132 * 2048, 256, 16, 1024)
    assert Teams().parts(1, False) == 1
    assert teams.parts(64, True) == 66
    assert teams.parts(64, False) == 17
    assert teams.parts(4096, False) == 1
    assert teams.parts(1, True) == 1056, "fewer than a block takes: each row by itself"
