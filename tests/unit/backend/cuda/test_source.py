"""What generated CUDA C++ looks like: whole files beside this one, and the ops of their lines.

`GLASSHOUSE_ACCEPT=1 pytest ...` writes the files anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cuda_samples import program_of
from glasshouse.backend.cuda.launch import CudaKernel
from glasshouse.backend.cuda.render import render
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import bfloat16, float16, float32
from glasshouse.ir.expr import Expr
from glasshouse.lower.kernel.parser import parse_kernel
from glasshouse.lower.kernel.printer import print_kernel

FOLDER = Path(__file__).parent / "golden"


def add_relu() -> Graph:
    builder = GraphBuilder()
    x, y = builder.input(float32, (40, 8)), builder.input(float32, (8,))
    return builder.finish((x + y).apply("relu"))


def softmax() -> Graph:
    builder = GraphBuilder()
    return builder.finish(builder.input(float16, (4096, 64)).apply("softmax"))


def linear_gelu() -> Graph:
    builder = GraphBuilder()
    x, random = builder.input(float16, (512, 256)), np.random.default_rng(0)
    w, bias = (
        builder.wrap(builder.constant(random.standard_normal(shape).astype(np.float16)))
        for shape in ((1024, 256), (1024,))
    )
    return builder.finish((x.apply("matmul", w, transpose_y=True) + bias).apply("gelu"))


GRAPHS = {"add_relu": add_relu, "softmax": softmax, "linear_gelu": linear_gelu}


def rendered(name: str) -> CudaKernel:
    (kernel,) = program_of(GRAPHS[name](), over_graph=True).kernels
    return render(kernel)


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_source_is_as_it_was(name: str) -> None:
    kernel, file = rendered(name), FOLDER / f"{name}.cu"
    if os.environ.get("GLASSHOUSE_ACCEPT"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(kernel.text)
    assert kernel.text == file.read_text()


def test_lines_know_their_ops() -> None:
    kernel = rendered("linear_gelu")
    ops = dict(zip(kernel.text.splitlines(), kernel.lines, strict=True))
    found = {line.strip(): at for line, at in ops.items()}
    assert next(at for line, at in found.items() if "gh::gelu(" in line) == (2,)
    assert next(at for line, at in found.items() if "gh::add(" in line) == (1,)
    assert next(at for line, at in found.items() if line.startswith("const auto& right_")) == (0,)
    assert next(at for line, at in found.items() if "gh::gemm_" in line) == (0, 1, 2)


def test_constants_are_told_and_survive_printing() -> None:
    (kernel,) = program_of(linear_gelu(), over_graph=True).kernels
    constants = {b.name for b in kernel.buffers if b.constant}
    assert constants == {"x1", "x2"}, "the weights and the bias, not the input"
    assert [b.constant for b in parse_kernel(print_kernel(kernel)).buffers] == [
        b.constant for b in kernel.buffers
    ]


@pytest.mark.parametrize("size, counter", [(40009, "int"), (59999, "int64_t")])
def test_terms_that_32_bits_do_not_count(size: int, counter: str) -> None:
    """The pairs of two vectors are nowhere in memory, and more than any buffer has elements."""
    builder = GraphBuilder()
    x, y = builder.input(float32, (size, 1)), builder.input(float32, (1, size))
    graph = builder.finish((x * y).apply("sum", axes=(0, 1)))
    (kernel,) = program_of(graph, over_graph=True).kernels
    assert f"for ({counter} f_1 = lane_; f_1 < {size * size};" in render(kernel).text


def logits(builder: GraphBuilder) -> Expr:
    x, w = builder.input(bfloat16, (32768, 256)), builder.input(bfloat16, (131072, 256))
    return x.apply("matmul", w, transpose_y=True).apply("gelu")


def scores(builder: GraphBuilder) -> Expr:
    q, k = (builder.input(bfloat16, (64, 16, 2048, 64)) for _ in range(2))
    return q.apply("matmul", k, transpose_y=True).apply("gelu")


def masked(builder: GraphBuilder) -> Expr:
    q, k, v = (builder.input(bfloat16, (64, 16, 2048, 64)) for _ in range(3))
    mask = builder.input(bfloat16, (64, 16, 2048, 2048))
    return q.apply("attention", k, v, mask)


def pooled(builder: GraphBuilder) -> Expr:
    x = builder.input(float16, (4096, 64, 128, 128))
    return x.apply("max_pool", kernel=(2, 2), stride=(1, 1), padding=(1, 0, 1, 0)).apply("relu")


@pytest.mark.parametrize("make", [logits, scores, masked, pooled])
def test_positions_of_more_elements_than_32_bits_count(
    make: Callable[[GraphBuilder], Expr],
) -> None:
    builder = GraphBuilder()
    (kernel,) = program_of(builder.finish(make(builder)), over_graph=True).kernels
    (tile,) = kernel.tiles
    names = {v.name for v in tile.variables} | {"m", "n", "b", "h", "i", "j"}
    text = render(kernel).text
    assert re.findall(rf"\bint ({'|'.join(names)})\b", text) == []
    assert re.findall(rf"\bint64_t ({'|'.join(names)})\b", text)
