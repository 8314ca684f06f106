"""Products on a GPU besides those of half floats by our own kernels: cuBLASLt's, of bytes, of 8-bit
floats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

import glasshouse as gh
from glasshouse.backend.cuda.cublaslt import CUBLASLT, cublaslt
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.passes import PassContext

STEP = 0.05


class Residual(nn.Module):
    """What cuBLASLt does behind a product: a bias and a function, a bias and a residual."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.activation(self.up(x)))


def by_library(activation: nn.Module, dtype: torch.dtype) -> tuple[Any, Any, str]:
    """Results of the library's products on several tensors, those wanted, and what was chosen."""
    if cublaslt() is None:
        return (), (), "cuBLASLt is not installed"
    model = Residual(activation).cuda().to(dtype).eval()
    given = [torch.randn(300, 256, device="cuda").to(dtype) for _ in range(4)]
    with torch.no_grad(), PassContext(options={"resolve_variant": {"prefer": (CUBLASLT,)}}):
        module = gh.compile(model, given[0], progress=False)
        made = [module(x) for x in given]
        wanted = [model(x) for x in given]
    taken = [step.kernel.variant for step in module.program.steps]
    assert taken == [CUBLASLT, CUBLASLT], taken
    return made, wanted, f"cuBLASLt {cublaslt().version}"


def quantised(shape: tuple[int, ...], columns: int, dtype: str, zero: int) -> Graph:
    """Activations through bytes, times int8 weights with a scale for each column, bytes again."""
    random = np.random.default_rng(0)
    builder = GraphBuilder()
    step, point = builder.constant(np.float32(STEP)), builder.constant(np.array(zero, dtype))
    x = builder.input("float32", shape)
    x = x.apply("quantize", step, point, dtype=as_dtype(dtype)).apply("dequantize", step, point)
    scales = builder.weight(random.uniform(0.001, 0.005, columns).astype("f"), "float32")
    zeros = builder.weight(np.zeros(columns, np.int8), "int8")
    sizes = (columns, shape[1], 3, 3) if len(shape) == 4 else (columns, shape[-1])
    data = builder.weight(random.integers(-128, 128, sizes).astype(np.int8), "int8")
    w = data.apply("dequantize", scales, zeros, axis=0)
    if len(shape) == 4:
        around = {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
        out = x.apply("conv", w, **around)
    else:
        out = x.apply("matmul", w, transpose_y=True)
    return builder.finish(out.apply("relu").apply("quantize", step, point, dtype=as_dtype(dtype)))


def as_on_the_host(graph: Graph) -> str:
    """Bytes that a GPU makes are those of the CPU: both add whole numbers."""
    (value,) = graph.inputs
    x = (np.random.default_rng(1).standard_normal(value.type.shape) * 4).astype(np.float32)
    module = gh.compile(graph, target="cuda", progress=False)
    assert any(s.kernel.variant.startswith("int8_") for s in module.program.steps)
    ours, theirs = module(x), gh.compile(graph, target="cpu", progress=False)(x)
    apart = np.abs(np.asarray(ours).astype(int) - np.asarray(theirs).astype(int))
    assert apart.max() <= 1, f"bytes are {apart.max()} apart"
    assert (apart != 0).mean() < 1e-3, f"{(apart != 0).mean():.1e} of bytes differ"
    return f"{(apart != 0).mean():.1e} of bytes differ"


class Scaled(nn.Module):
    """A product of 8-bit floats with scales."""

    def forward(
        self, x: torch.Tensor, w: torch.Tensor, scale_x: torch.Tensor, scale_w: torch.Tensor
    ) -> torch.Tensor:
        return torch._scaled_mm(x, w.t(), scale_x, scale_w, out_dtype=torch.bfloat16)


def of_float8(
    sizes: tuple[int, int, int], kinds: tuple[torch.dtype, torch.dtype], by_row: bool
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Our result, the exact one, and how far PyTorch's is from it."""
    rows, columns, depth = sizes
    torch.manual_seed(0)
    x, w = (
        torch.randn(n, depth, device="cuda").to(kind)
        for n, kind in zip((rows, columns), kinds, strict=True)
    )
    shapes = ((rows, 1), (1, columns)) if by_row else ((), ())
    scales = [torch.rand(shape, device="cuda") + 0.1 for shape in shapes]
    with torch.no_grad():
        module = gh.compile(Scaled(), x, w, *scales, progress=False)
        made = module(x, w, *scales)
    assert module.program.steps[0].kernel.variant.startswith("float8_tma")
    exact = x.double() @ w.double().t() * scales[0] * scales[1]
    theirs = Scaled()(x, w, *scales)
    return made.double(), exact, float((theirs - exact).abs().max() / exact.abs().max())


def bytes_of_float8(kind: torch.dtype) -> str:
    """Every half float becomes the byte that it becomes on the host."""
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    module = gh.compile(lambda x: x.to(kind), x, target="cuda", progress=False)
    ours = module(x.cuda()).cpu()
    theirs = gh.compile(lambda x: x.to(kind), x, target="cpu", progress=False)(x)
    same = ours.view(torch.uint8) == theirs.view(torch.uint8)
    assert bool((same | (ours.float().isnan() & theirs.float().isnan())).all())
    return "65536 bytes"


def of_float64() -> Iterator[tuple[str, Any, tuple[Any, ...], float]]:
    """Cases as `sequences.compared` takes them: layers of few and of many rows, of sizes that no
    tile divides, operands along the depth and across it."""
    for rows, depth, columns in (
        (1, 1024, 2816), (7, 300, 50), (64, 512, 512), (129, 71, 333), (513, 1000, 130),
        (2048, 2048, 2048),
    ):  # fmt: skip
        linear = nn.Linear(depth, columns).double()
        layer = nn.Sequential(linear, nn.Tanh()).requires_grad_(False)
        yield f"layer of float64 {rows, columns, depth}", layer, (_doubles(rows, depth),), 1e-14
    for batch, m, n, k in ((8, 128, 128, 64), (3, 37, 53, 19), (40, 256, 64, 256)):
        x, y = _doubles(batch, m, k), _doubles(batch, n, k)
        along, across = (lambda a, b: a @ b.mT), (lambda a, b: a.mT @ b.mT.contiguous())
        yield f"batch of float64 {batch, m, n, k}", along, (x, y), 1e-14
        across_both = (_doubles(batch, k, m), y)
        yield f"batch of float64 across {batch, m, n, k}", across, across_both, 1e-14


def of_groups() -> Iterator[tuple[str, Any, tuple[Any, ...], float]]:
    """Rows of experts, in the one type that PyTorch has a kernel for."""
    for rows, depth, columns, groups in ((64, 128, 256, 8), (1000, 512, 320, 16), (8, 64, 64, 60)):
        ends = torch.randint(0, rows + 1, (groups,)).sort().values.int()
        ends[-1] = rows
        x, w = torch.randn(rows, depth), torch.randn(groups, depth, columns)
        given = (x.bfloat16(), w.bfloat16(), ends)
        for name, function in (
            ("groups", lambda a, b, e: torch._grouped_mm(a, b, offs=e)),
            ("groups, turned", lambda a, b, e: torch._grouped_mm(a, b.mT.contiguous().mT, offs=e)),
        ):
            yield f"{name} {rows, columns, depth, groups}", function, given, 1e-2


def _doubles(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)
