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
from glasshouse.runtime.torch_ops import factor, places, sequences, windows

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
    "cholesky": factor.cholesky,
    "conv": windows.conv,
    "conv_transpose": windows.conv_transpose,
    "conv_weight_grad": windows.conv_weight_grad,
    "embedding_bag": places.embedding_bag,
    "fft": sequences.fft,
    "grouped_matmul": places.grouped_matmul,
    "householder": factor.householder,
    "lu": factor.lu,
    "max_pool_grad": windows.max_pool_grad,
    "nth": sequences.nth,
    "recurrent": sequences.recurrent,
    "reflections": factor.reflections,
    "resize": places.resize,
    "resize_grad": places.resize_grad,
    "row_order": factor.row_order,
    "scatter": places.scatter,
    "scatter_nd": places.scatter_nd,
    "sort": sequences.sort,
    "take_grad": places.take_grad,
    "topk": sequences.topk,
    "triangle_solve": factor.triangle_solve,
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


class TorchStep:
    """A node that PyTorch runs, with what is the same in all runs found once."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._opaque = node.op.name == "opaque"
        self._types = [getattr(torch, v.type.dtype.name) for v in node.outputs]
        self._fixed: tuple[Callable[..., Any], list[tuple[int, ...]]] | None = None

    def __call__(self, tensors: Sequence[Tensor], sizes: dict[str, int]) -> list[Tensor]:
        """The outputs for these operands, contiguous and of the types that the node gives them.

        Symbols that only the result of an opaque node determines are added to `sizes`.
        """
        node = self._node
        call, shapes = self._fixed or self._found(sizes)
        if not self._opaque and all(0 in shape for shape in shapes):
            made: Any = [tensors[0].new_empty(shape) for shape in shapes]
        else:
            try:
                with exact():
                    made = call(*tensors)
            except RuntimeError as error:
                given = ", ".join(str(list(t.shape)) for t in tensors)
                raise ExecutionError(
                    f"{node.op.label} through PyTorch failed on operands of shape {given}: "
                    f"{str(error).splitlines()[0]}",
                    str(node.origin.source),
                ) from error
        many = made if isinstance(made, (tuple, list)) else (made,)
        if self._opaque and not self._fixed:
            known = len(sizes)
            for symbol, size in bind_sizes([v.type for v in node.outputs], many).items():
                sizes.setdefault(symbol, size)
            if len(sizes) > known:
                check_given_sizes(node, sizes)
            shapes = [_shape(v, sizes) for v in node.outputs]
        for result, shape in zip(many, shapes, strict=True):
            if tuple(result.shape) != shape:
                raise ExecutionError(
                    f"{node.op.label} through PyTorch gave shape {list(result.shape)}, its type "
                    f"says {list(shape)}",
                    str(node.origin.source),
                )
        return [t.to(kind).contiguous() for t, kind in zip(many, self._types, strict=True)]

    def _found(self, sizes: dict[str, int]) -> tuple[Callable[..., Any], list[tuple[int, ...]]]:
        """What to call for these sizes, and the shapes of its results."""
        node = self._node
        attrs = {key: resolve(value, sizes) for key, value in node.attrs.items()}
        call = (
            attrs["call"].on_tensors
            if self._opaque
            else functools.partial(OPS[node.op.name], **attrs)
        )
        found = call, [_shape(v, sizes) for v in node.outputs]
        if not _has_symbol([*node.attrs.values(), *(v.type.shape for v in node.outputs)]):
            self._fixed = found
        return found


def _has_symbol(given: Any) -> bool:
    if isinstance(given, (tuple, list)):
        return any(map(_has_symbol, given))
    return isinstance(given, SymDim)


def run_in_torch(node: Node, tensors: Sequence[Tensor], sizes: dict[str, int]) -> list[Tensor]:
    """A node's outputs for these operands: see `TorchStep`."""
    return TorchStep(node)(tensors, sizes)


def _shape(value: Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(-1 if isinstance(d, SymDim) and not symbols_of(d).keys() <= sizes.keys()
                 else evaluate(d, sizes) for d in value.type.shape)  # fmt: skip
