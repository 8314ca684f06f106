"""Where the tensors of a graph are, and so what it is compiled for: the host, or one GPU.

A graph may hold tensors of both: the model moves them itself, or one is a number (PyTorch lets a
single number of the host meet tensors of a GPU). Such a graph runs on the GPU whole, and results
that PyTorch leaves on the host are brought there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS
from glasshouse.passes.auto_mix_precision import TF32, TF32_CONVS, TF32_PRODUCTS
from glasshouse.passes.context import PassContext

_CUDNN_ENABLED: ContextVar[bool] = ContextVar("cudnn_enabled")
"""What the user's program has set, while `plain_ops` sets it otherwise: a forward graph is compiled
inside of that, and rounds as eager PyTorch would."""
TARGETS = {"cuda": "cuda"}
"""Kinds of devices that are no host -> the target that runs there."""


@dataclass(frozen=True)
class GpuOf:
    """The GPU that a graph runs on."""

    name: str  # as PyTorch calls it
    target: str

    def operand(self, given: Any) -> Any:
        """An argument of a call as kernels want it: a plain tensor on the GPU."""
        if isinstance(given, int):  # a size on its own: nothing but its length is looked at
            return torch.empty(given, dtype=torch.bool, device=self.name)
        plain = type(given) is torch.Tensor and given.is_cuda and not given.is_neg()
        if plain and given.dtype not in COMPLEX_PARTS:  # nearly all: this runs for each argument
            return given.detach() if given.requires_grad else given
        found = given.detach().resolve_conj().resolve_neg()
        if found.dtype in COMPLEX_PARTS:
            found = torch.view_as_real(found)
        return found.to(self.name)

    def leave(self, results: Sequence[Any], homes: Sequence[str | None]) -> list[Any]:
        """Results where PyTorch has them."""
        return [
            r if home is None or not isinstance(r, torch.Tensor) else r.to(home)
            for r, home in zip(results, homes, strict=True)
        ]

    def homes(self, outputs: Sequence[Any]) -> list[str | None]:
        """Where outputs of a traced graph are that are not on this GPU."""
        vals = [getattr(node, "meta", {}).get("val") for node in outputs]
        return [
            str(v.device) if isinstance(v, torch.Tensor) and v.device.type not in TARGETS else None
            for v in vals
        ]


def device_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The target for arguments of a model by the device that they lie on; "" for the host."""
    leaves = pytree.tree_leaves((args, dict(kwargs)))
    kinds = {x.device.type for x in leaves if isinstance(x, torch.Tensor)}
    return next((target for kind, target in TARGETS.items() if kind in kinds), "")


def asked_precision(target: object) -> str | None:
    """What eager PyTorch would round on a GPU, by its own settings; None where it is nothing, or
    where the enclosing `PassContext` says what is wanted.

    Convolutions round to TF32 unless `torch.backends.cudnn.allow_tf32` is False; matrix products do
    with `set_float32_matmul_precision("high")`, or `backends.cuda.matmul.allow_tf32`.
    """
    around = PassContext.current()
    if not str(target).startswith("cuda") or (around is not None and around.is_precision_given):
        return None
    try:
        products = torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # it was said in PyTorch's newer words, which do not mix with these
        products = torch.backends.cuda.matmul.fp32_precision == "tf32"
    try:
        convs = torch.backends.cudnn.allow_tf32
    except RuntimeError:
        convs = torch.backends.cudnn.conv.fp32_precision == "tf32"
    convs = convs and _CUDNN_ENABLED.get(torch.backends.cudnn.enabled)
    if products and convs:
        return TF32
    return TF32_PRODUCTS if products else TF32_CONVS if convs else None


def gpu_of(tensors: Sequence[Any]) -> GpuOf | None:
    """The GPU that tensors are on; None where all are the host's. One GPU is used, the first."""
    found = {t.device for t in tensors if isinstance(t, torch.Tensor) and t.device.type in TARGETS}
    names = sorted({str(device) for device in found})
    if not found:
        return None
    if len(names) > 1:
        raise Unsupported(
            f"one graph has tensors on {' and '.join(names)}: kernels run on one GPU",
            hint="put the model and its inputs on cuda:0",
        )
    device = found.pop()
    if device.index not in (None, 0):
        raise Unsupported(
            f"the tensors are on {device}: kernels run on the first GPU, cuda:0",
            hint="put the model and its inputs there, or set CUDA_VISIBLE_DEVICES",
        )
    return GpuOf(str(device), TARGETS[device.type])


@contextmanager
def plain_ops(gpu: GpuOf | None) -> Iterator[None]:
    """Tracing inside meets PyTorch's general ops, not those of cuDNN and of its flash attention,
    whose results only PyTorch's own gradients can read."""
    if gpu is None:
        yield
        return
    before = torch.backends.cudnn.enabled
    # Not by that name: PyTorch's test utilities, once imported, let nobody assign to it.
    torch._C._set_cudnn_enabled(False)
    told = _CUDNN_ENABLED.set(_CUDNN_ENABLED.get(before))
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        _CUDNN_ENABLED.reset(told)
        torch._C._set_cudnn_enabled(before)
