"""How an op without a spelling stays in the graph: its operands taken out of its arguments, its
results as handles of one opaque node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from glasshouse.errors import CaptureError
from glasshouse.frontend.torch.complex import Complex
from glasshouse.frontend.torch.dims import Symbols
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS, dtype_of
from glasshouse.frontend.torch.opaque import Hole, TorchCall, argument_at, flat_tensors
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import DType, int64
from glasshouse.ir.graph import Graph
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.types import TensorType, tensor_type

_KEPT = (torch.dtype, torch.device, torch.layout, torch.memory_format)


class CallOperands:
    """Takes the operands out of an op's arguments."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.handles: list[Any] = []

    def template(self, given: Any) -> Any:
        if isinstance(given, Complex):
            wide = {p: c for c, p in COMPLEX_PARTS.items()}
            return self._hole(given.pairs, wide[getattr(torch, given.dtype.name)])
        if hasattr(given, "builder"):
            return self._hole(given, getattr(torch, given.dtype.name))
        if isinstance(given, SymDim):
            size = self.builder.apply("full", shape=(), value=given, dtype=int64)
            return self._hole(size, None)
        if isinstance(given, DType):
            return getattr(torch, given.name)
        if isinstance(given, dict):
            return {k: self.template(v) for k, v in given.items()}
        if isinstance(given, (list, tuple)):
            return type(given)(self.template(g) for g in given)
        if given is None or isinstance(given, (bool, int, float, complex, str, *_KEPT)):
            return given
        raise CaptureError(f"an argument of type {type(given).__name__} cannot be captured")

    def _hole(self, handle: Any, dtype: torch.dtype | None) -> Hole:
        self.handles.append(handle)
        return Hole(len(self.handles) - 1, dtype)


def opaque_call(
    builder: GraphBuilder,
    symbols: Symbols,
    target: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    val: Any,
    written: Sequence[int | str] = (),
    read: Any = None,
) -> tuple[Any, list[Any]]:
    """The result of an op as handles, in the form of `val`; and what written arguments hold.

    `read` is `val` with None for results that nothing reads: PyTorch does not always keep to the
    type that it gives for them.
    """
    operands = CallOperands(builder)
    template = tuple(operands.template(a) for a in args)
    named = {k: operands.template(v) for k, v in kwargs.items()}
    in_place = [r.alias_info is not None for r in target._schema.returns]
    results = [] if written and all(in_place) else flat_tensors(val)
    kept = val if read is None or not flat_tensors(read) else read
    counted = {id(t) for t in flat_tensors(kept)}
    numbers = tuple(i for i, t in enumerate(results) if id(t) in counted)
    if any(results[i].layout is not torch.strided for i in numbers):
        raise CaptureError(
            f"{name_of(target)} gives a sparse tensor, which a graph cannot hold", builder.where(),
            "compute with dense tensors (to_dense)",
        )  # fmt: skip
    types = [type_of(results[i], symbols) for i in numbers]
    targets = [argument_at(args, kwargs, w) for w in written]
    types += [t.type for t in targets]
    if not types:
        raise CaptureError(f"{target} gives no tensor", builder.where())
    call = TorchCall(name_of(target), template, named, tuple(written), numbers)
    node = REGISTRY["opaque"].emit(
        builder,
        operands.handles,
        {
            "target": name_of(target),
            "arguments": shown(template, named),
            "call": call,
            "types": types,
        },
    )
    outs = [builder.wrap(v) for v in node.outputs]
    made = iter(outs)
    shaped = _shaped(kept, made) if results else None
    return shaped, [
        Complex(o) if isinstance(t, Complex) else o for t, o in zip(targets, made, strict=True)
    ]


def name_of(target: Any) -> str:
    """`aten.sort.stable`: how an op is found below `torch.ops`."""
    return str(target)


def type_of(tensor: Any, symbols: Symbols) -> TensorType:
    """The type that a tensor has in a graph."""
    shape = symbols.shape(tensor.shape)
    if tensor.dtype in COMPLEX_PARTS:
        shape = (*shape, 2)
    return tensor_type(dtype_of(tensor.dtype), shape)


def _shaped(val: Any, made: Any) -> Any:
    if isinstance(val, torch.Tensor):
        handle = next(made)
        return Complex(handle) if val.dtype in COMPLEX_PARTS else handle
    if isinstance(val, (list, tuple)):
        return tuple(_shaped(v, made) for v in val)
    return val if isinstance(val, (bool, int, float)) else None


def shown(args: Any, kwargs: Any) -> str:
    """Arguments as text, operands by number."""

    def one(given: Any) -> str:
        if isinstance(given, Hole):
            return f"%{given.number}"
        if isinstance(given, (list, tuple)):
            return f"[{', '.join(map(one, given))}]"
        return repr(given)

    return ", ".join([*map(one, args), *(f"{k}={one(v)}" for k, v in kwargs.items())])


def opaque_ops(graph: Graph) -> Counter[str]:
    """How often each op without a spelling occurs, bodies of control flow included."""
    found: Counter[str] = Counter()
    pending = [graph]
    while pending:
        for node in pending.pop().nodes:
            if node.op.name == "opaque":
                found[node.attrs["target"]] += 1
            pending += [a for a in node.attrs.values() if isinstance(a, Graph)]
    return found
