"""Convolutions and their gradients on a GPU by cuDNN, and gradients of pools and of resizing by our
own kernels, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import glasshouse as gh
from glasshouse.backend.cuda.cudnn import CUDNN, CUDNN_TF32
from glasshouse.frontend import dynamo
from glasshouse.lower.program import Fallback
from glasshouse.passes import PassContext

WITHIN = {
    torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.float64: 1e-12,
}  # fmt: skip
TF32 = 2e-3
"""Where float32 may round: eager does too."""

# channels, size, filters, kernel, what differs
CASES: dict[str, tuple[int, tuple[int, ...], int, int, dict[str, Any]]] = {
    "1d": (32, (200,), 64, 5, {"padding": 2, "stride": 2}),
    "2d": (64, (28, 28), 64, 3, {"padding": 1}),
    "2d by 2": (32, (33, 33), 64, 3, {"padding": 1, "stride": 2}),
    "1x1": (64, (16, 16), 128, 1, {}),
    "groups of 4": (64, (56, 56), 64, 3, {"padding": 1, "groups": 16}),
    "depthwise": (64, (28, 28), 64, 3, {"padding": 1, "groups": 64}),
    "depthwise 7x7": (96, (112, 112), 96, 7, {"padding": 3, "groups": 96}),  # pixels together
    "depthwise by 2": (48, (57, 57), 48, 3, {"padding": 1, "stride": 2, "groups": 48}),
    "gaps": (32, (30, 30), 32, 3, {"padding": 2, "dilation": 2}),
    "3 channels": (3, (64, 64), 32, 7, {"padding": 3, "stride": 2}),
    "3d": (16, (12, 14, 16), 32, 3, {"padding": 1}),
    "3d by 2": (16, (9, 12, 13), 32, 3, {"padding": 1, "stride": 2}),
}
_KINDS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_TURNED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


class Backward(nn.Module):
    """A layer, what follows it, and the gradients of both by input and weights."""

    def __init__(self, layer: nn.Module, grads: bool = True) -> None:
        super().__init__()
        self.layer, self.grads = layer, grads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


def _errors(ours: list[torch.Tensor], exact: list[torch.Tensor]) -> list[float]:
    return [
        float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-30))
        for a, b in zip(ours, exact, strict=True)
    ]


def _stepped(run: Callable[..., Any], model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Result, gradients of the input and of all weights; what is handed back is small enough that
    sums of half floats stay finite, and the same in every type."""
    x = x.detach().clone().requires_grad_(True)
    model.zero_grad(set_to_none=True)
    out = run(x)
    random = torch.Generator("cuda").manual_seed(1)
    g = torch.randn(out.shape, generator=random, device="cuda").half() / 16
    out.backward(g.to(out.dtype))
    return [out.detach(), x.grad, *(p.grad for p in model.parameters())]


def _compiled(model: nn.Module) -> Callable[..., Any]:
    """The model through torch.compile, as nothing was compiled before."""
    torch._dynamo.reset()
    dynamo.reset()
    if "glasshouse" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(dynamo.backend, name="glasshouse")
    return torch.compile(model, backend="glasshouse", options={"executor": "compiled"})


def trained(name: str, dtype: torch.dtype, turned: bool = False) -> str:
    """A layer's result and its gradients, against float64: errors of ours and of eager's. Without
    TF32: what it rounds changes which elements a ReLU lets through, and eager takes it for some
    shapes alone."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return _trained(name, dtype, turned)


def _trained(name: str, dtype: torch.dtype, turned: bool) -> str:
    channels, size, filters, kernel, how = CASES[name]
    torch.manual_seed(0)
    kinds = _TURNED if turned else _KINDS
    model = Backward(kinds[len(size)](channels, filters, kernel, **how)).cuda().to(dtype)
    x = torch.randn(4, channels, *size, device="cuda").to(dtype)
    prefer = {"resolve_variant": {"prefer": (CUDNN, CUDNN_TF32)}}
    with PassContext(options=prefer):
        compiled = _compiled(model)
        ours = _stepped(compiled, model, x)
    eager = _stepped(model, model, x)
    exact_model = Backward(kinds[len(size)](channels, filters, kernel, **how)).cuda().double()
    exact_model.load_state_dict({k: v.double() for k, v in model.state_dict().items()})
    exact = _stepped(exact_model, exact_model, x.double())
    mine, theirs = _errors(ours, exact), _errors(eager, exact)
    within = WITHIN[dtype]
    text = " ".join(f"{a:.1e}/{b:.1e}" for a, b in zip(mine, theirs, strict=True))
    assert all(a <= max(within, 2 * b) for a, b in zip(mine, theirs, strict=True)), text
    again = _stepped(compiled, model, x)
    assert all(torch.equal(a, b) for a, b in zip(ours, again, strict=True)), "two runs differ"
    return f"errors ours/eager {text}"


def inferred(name: str, dtype: torch.dtype) -> str:
    """A convolution by cuDNN alone, in the graph, with what follows it."""
    channels, size, filters, kernel, how = CASES[name]
    torch.manual_seed(0)
    model = Backward(_KINDS[len(size)](channels, filters, kernel, **how)).cuda().to(dtype).eval()
    given = [torch.randn(4, channels, *size, device="cuda").to(dtype) for _ in range(3)]
    with torch.no_grad(), PassContext(options={"resolve_variant": {"prefer": (CUDNN, CUDNN_TF32)}}):
        module = gh.compile(model, given[0], progress=False)
    steps = module.program.steps
    taken = ["fallback" if isinstance(s, Fallback) else s.kernel.variant for s in steps]
    lines = [x for t in module.source.kernels.values() for x in t.splitlines() if "cuDNN" in x]
    with torch.no_grad():
        found = max(max(_errors([module(x)], [model(x)])) for x in given)
    within = TF32 if dtype is torch.float32 else WITHIN[dtype]
    assert found <= within, f"{found:.1e}"
    return f"{found:.1e} {taken} {[x.split(',')[0].split(chr(39))[-1] for x in lines]}"


_F = nn.functional
GATHERED: dict[str, tuple[tuple[int, ...], Callable[[torch.Tensor], torch.Tensor]]] = {
    "max 3x3 by 2": ((4, 64, 57, 56), lambda x: _F.max_pool2d(x, 3, 2, 1)),
    "max 2x2": ((4, 64, 56, 56), lambda x: _F.max_pool2d(x, 2)),
    "max of a line": ((4, 64, 77), lambda x: _F.max_pool1d(x, 3, 2)),
    "max of volumes": ((2, 16, 9, 10, 11), lambda x: _F.max_pool3d(x, 3, 2, 1)),
    "mean 3x3 by 2": ((4, 64, 57, 56), lambda x: _F.avg_pool2d(x, 3, 2, 1, True, False)),
    "mean of volumes": ((2, 16, 8, 10, 12), lambda x: _F.avg_pool3d(x, 2)),
    "nearest": ((4, 64, 28, 28), lambda x: _F.interpolate(x, scale_factor=2.0)),
    "bilinear": ((4, 64, 28, 28), lambda x: _F.interpolate(x, (70, 50), mode="bilinear")),
    "bicubic": ((4, 16, 28, 28), lambda x: _F.interpolate(x, (70, 50), mode="bicubic")),
    "trilinear": ((2, 16, 6, 7, 8), lambda x: _F.interpolate(x, (9, 14, 16), mode="trilinear")),
    "smaller": (
        (4, 16, 60, 61), lambda x: _F.interpolate(x, (17, 19), mode="bilinear", antialias=True),
    ),
}  # fmt: skip


class Gathered(nn.Module):
    """A pool or a resizing behind something that has a gradient of its own."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.of = GATHERED[name][1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.of(x * 2)


def gathered(name: str, dtype: torch.dtype) -> str:
    """The gradient of a pool or of resizing by our kernel, twice, beside PyTorch's."""
    torch.manual_seed(0)
    model = Gathered(name).cuda()
    x = torch.randn(GATHERED[name][0], device="cuda").to(dtype)
    compiled = _compiled(model)
    ours, eager = _stepped(compiled, model, x), _stepped(model, model, x)
    exact = _stepped(model, model, x.double())
    mine, theirs = _errors(ours, exact), _errors(eager, exact)
    text = " ".join(f"{a:.1e}/{b:.1e}" for a, b in zip(mine, theirs, strict=True))
    bounds = (max(WITHIN[dtype], 2 * b) for b in theirs)
    assert all(a <= b for a, b in zip(mine, bounds, strict=True)), text
    again = _stepped(compiled, model, x)
    assert all(torch.equal(a, b) for a, b in zip(ours, again, strict=True)), "two runs differ"
    fell = {
        s.node.op.name
        for g in dynamo.compiled_graphs()
        for s in g.runner.module.program.steps
        if isinstance(s, Fallback)
    }
    assert not fell, f"through PyTorch: {sorted(fell)}"
    return f"errors ours/eager {text}"


def checks() -> Iterator[tuple[str, Callable[[], str]]]:
    """Titles, and what is run for each."""
    from functools import partial

    for name in GATHERED:
        for dtype in (torch.float16, torch.float32):
            yield f"gradient {name} {dtype}", partial(gathered, name, dtype)
    for name in ("2d", "3d", "1d", "groups of 4", "3 channels"):
        for dtype in (torch.float16, torch.float32):
            yield f"inference {name} {dtype}", partial(inferred, name, dtype)
    yield "inference 2d float64", partial(inferred, "2d", torch.float64)
    for dtype in WITHIN:
        yield f"training 2d {dtype}", partial(trained, "2d", dtype)
    for name in CASES:
        if name != "2d":
            yield f"training {name} float16", partial(trained, name, torch.float16)
    for name in ("2d by 2", "3d", "gaps"):
        yield f"training {name} float32", partial(trained, name, torch.float32)
        yield f"training turned {name} float16", partial(trained, name, torch.float16, True)
