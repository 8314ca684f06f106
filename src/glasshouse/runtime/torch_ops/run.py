"""Running a node through PyTorch, on whatever device its operands are.

Results of the functions may be of a wider type; here they are brought to that of the node. float32
stays float32 (`exact`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch

from glasshouse.errors import ExecutionError
from glasshouse.ir.dim import SymDim, evaluate, symbols_of
from glasshouse.ir.graph import Node, Value
from glasshouse.numpy_ref.executor import bind_sizes, resolve
from glasshouse.runtime.checks import check_given_sizes
from glasshouse.runtime.torch_ops import places, sequences, windows

Tensor: TypeAlias = torch.Tensor


@contextmanager
def exact() -> Iterator[None]:
    """Without TF32, which PyTorch allows convolutions by default."""
    c: Any = torch._C  # what `torch.backends` sets; there, some programs lock the settings
    try:
        before = c._get_cudnn_allow_tf32(), c._get_cublas_allow_tf32()
    except RuntimeError:  # set by PyTorch's newer names, which these do not go with
        with torch.no_grad():
            yield
        return
    c._set_cudnn_allow_tf32(False)
    c._set_cublas_allow_tf32(False)
    try:
        with torch.no_grad():
            yield
    finally:
        c._set_cudnn_allow_tf32(before[0])
        c._set_cublas_allow_tf32(before[1])


OPS: dict[str, Callable[..., Any]] = {
    "avg_pool_grad": windows.avg_pool_grad,
    "conv": windows.conv,
    "conv_transpose": windows.conv_transpose,
    "conv_weight_grad": windows.conv_weight_grad,
    "cummax": sequences.cummax,
    "cumprod": sequences.cumprod,
    "embedding_bag": places.embedding_bag,
    "fft": sequences.fft,
    "grouped_matmul": places.grouped_matmul,
    "linear_recurrence": sequences.linear_recurrence,
    "logcumsumexp": sequences.logcumsumexp,
    "max_pool_grad": windows.max_pool_grad,
    "recurrent": sequences.recurrent,
    "resize": places.resize,
    "resize_grad": places.resize_grad,
    "scatter": places.scatter,
    "scatter_nd": places.scatter_nd,
    "sort": sequences.sort,
    "take_grad": places.take_grad,
    "topk": sequences.topk,
}
ONLY_WHERE: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "avg_pool_grad": windows.undilated, "max_pool_grad": windows.evenly_padded,
}  # fmt: skip
"""Attributes for which PyTorch has the op."""


def is_spelled(node: Node) -> bool:
    """Whether `run_in_torch` runs a node."""
    name = node.op.name
    if name == "opaque":
        return hasattr(node.attrs["call"], "on_tensors")
    return name in OPS and (name not in ONLY_WHERE or ONLY_WHERE[name](node.attrs))


def run_in_torch(node: Node, tensors: Sequence[Tensor], sizes: dict[str, int]) -> list[Tensor]:
    """A node's outputs for these operands, contiguous and of the types that the node gives them.

    Symbols that only the result of an opaque node determines are added to `sizes`.
    """
    name = node.op.name
    if name != "opaque" and all(0 in _shape(v, sizes) for v in node.outputs):
        made: Any = [tensors[0].new_empty(_shape(v, sizes)) for v in node.outputs]
    else:
        attrs = {key: resolve(value, sizes) for key, value in node.attrs.items()}
        call = (
            attrs["call"].on_tensors if name == "opaque" else functools.partial(OPS[name], **attrs)
        )
        try:
            with exact():
                made = call(*tensors)
        except RuntimeError as error:
            shapes = ", ".join(str(list(t.shape)) for t in tensors)
            raise ExecutionError(
                f"{node.op.label} through PyTorch failed on operands of shape {shapes}: "
                f"{str(error).splitlines()[0]}",
                str(node.origin.source),
            ) from error
    many = made if isinstance(made, (tuple, list)) else (made,)
    if name == "opaque":
        known = len(sizes)
        for symbol, size in bind_sizes([v.type for v in node.outputs], many).items():
            sizes.setdefault(symbol, size)
        if len(sizes) > known:
            check_given_sizes(node, sizes)
    for result, value in zip(many, node.outputs, strict=True):
        if tuple(result.shape) != _shape(value, sizes):
            raise ExecutionError(
                f"{node.op.label} through PyTorch gave shape {list(result.shape)}, its type says "
                f"{list(_shape(value, sizes))}",
                str(node.origin.source),
            )
    return [
        t.to(getattr(torch, v.type.dtype.name)).contiguous()
        for t, v in zip(many, node.outputs, strict=True)
    ]


def _shape(value: Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(-1 if isinstance(d, SymDim) and not symbols_of(d).keys() <= sizes.keys()
                 else evaluate(d, sizes) for d in value.type.shape)  # fmt: skip
