"""Products of groups of rows on a GPU: one kernel that finds its groups, whatever their sizes."""

from __future__ import annotations

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda.build import INCLUDE
from glasshouse.backend.cuda.nvrtc import compile_cubin, nvrtc
from glasshouse.backend.cuda.render import render
from glasshouse.errors import CompilerMissing
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import as_dtype, int32
from glasshouse.numpy_ref import run


def products(dtype: str, rows: int, depth: int, columns: int, groups: int, turned: bool) -> Graph:
    builder = GraphBuilder()
    x = builder.input(as_dtype(dtype), (rows, depth))
    shape = (groups, columns, depth) if turned else (groups, depth, columns)
    w, ends = builder.input(as_dtype(dtype), shape), builder.input(int32, (groups,))
    return builder.finish(x.apply("grouped_matmul", w, ends, turned=turned))


@pytest.mark.parametrize(
    ("dtype", "depth", "columns", "turned"),
    [
        ("float16", 40, 72, False),
        ("float16", 33, 17, True),
        ("float32", 20, 70, True),
        ("float64", 19, 34, False),
    ],
)
def test_every_group_meets_its_matrix(dtype: str, depth: int, columns: int, turned: bool) -> None:
    """Groups without rows, of one row, of more than a tile; ends that go back or past the rows."""
    graph = products(dtype, 90, depth, columns, 4, turned)
    program = program_of(graph)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(v.type.shape).astype(dtype) for v in graph.inputs[:2])
    for ends in ([1, 1, 80, 90], [0, 0, 0, 0], [90, 90, 90, 90], [50, 20, 70, 5], [3, 200, 9, 0]):
        given = [x, w, np.array(ends, np.int32)]
        (ours,), (exact,) = run_emulated(program, given, fall_back=False), run(graph, given)
        wide = np.asarray(exact, np.float64)
        within = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-13}[dtype]
        assert np.abs(np.asarray(ours, np.float64) - wide).max() <= within * np.abs(wide).max()


def test_no_rows() -> None:
    graph = products("float32", 0, 3, 5, 2, False)
    given = [np.zeros((0, 3), np.float32), np.ones((2, 3, 5), np.float32), np.zeros(2, np.int32)]
    assert run_emulated(program_of(graph), given, fall_back=False)[0].shape == (0, 5)


@pytest.mark.parametrize(("arch", "dtype"), [("sm_80", "float16"), ("sm_90", "float64")])
def test_it_compiles(arch: str, dtype: str) -> None:
    try:
        nvrtc()
    except CompilerMissing as error:
        pytest.skip(str(error))
    (kernel,) = program_of(products(dtype, 64, 64, 64, 4, False), arch=arch).kernels
    shown = render(kernel)
    assert compile_cubin(shown.text, shown.name, arch, INCLUDE)[:4] == b"\x7fELF"
