"""How collectives of torch.distributed stay in a graph: PyTorch starts them, and later waits.

A functional collective returns before its result is there, and `wait_tensor` finds the work by the
memory of the result; values of a graph have other memory. So a collective is two nodes: one starts
it and gives a ticket, the other trades the ticket for the result. The second stands where the
result is first read: kernels in between run while data is under way.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import fx

from glasshouse.frontend.torch.complex import Complex
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS
from glasshouse.frontend.torch.opaque import COLLECTIVES, TorchCall, as_array, flat_tensors
from glasshouse.frontend.torch.opaque_nodes import CallOperands, name_of, shown, type_of
from glasshouse.frontend.torch.slot import Slot
from glasshouse.ir.dim import Dim, dim_max, product
from glasshouse.ir.dtype import int64
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.types import TensorType, tensor_type

if TYPE_CHECKING:
    from glasshouse.frontend.torch.importer import Importer

Array = np.ndarray[Any, Any]

_WAIT = "_c10d_functional.wait_tensor.default"
_TICKET = tensor_type(int64, ())
_under_way: dict[int, list[torch.Tensor]] = {}
_tickets = itertools.count(1)


@dataclass(frozen=True)
class Start:
    """Starts a collective; what it gives is the ticket of the result."""

    call: TorchCall

    def __call__(self, *arrays: Array) -> Array:
        ticket = next(_tickets)
        _under_way[ticket] = flat_tensors(self.call.called(arrays))
        return np.array(ticket, np.int64)


def wait(ticket: Array) -> tuple[Array, ...]:
    """The result of a collective that was started."""
    started = _under_way.pop(int(ticket))
    return tuple(as_array(torch.ops._c10d_functional.wait_tensor(t)) for t in started)


def is_collective(node: fx.Node) -> bool:
    """Whether an op is one that goes on by itself after it was called, or waits for one that does.

    Those that write to an operand wait at once (`TorchCall`), as any other opaque op.
    """
    schema = getattr(node.target, "_schema", None)
    return (
        schema is not None
        and schema.name.partition("::")[0] in COLLECTIVES
        and not schema.is_mutable
        and bool(flat_tensors(node.meta.get("val")))
    )


def started(importer: Importer, node: fx.Node, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Start a collective; its results as slots, which wait for it when they are read."""
    builder, val = importer.builder, node.meta["val"]
    operands = CallOperands(builder)
    template = tuple(operands.template(_named(a)) for a in args)
    keywords = {k: operands.template(_named(v)) for k, v in kwargs.items()}
    types = [type_of(t, importer.symbols) for t in flat_tensors(val)]
    group = _group(node, args, kwargs)
    start = REGISTRY["opaque"].emit(
        builder,
        operands.handles,
        {
            "target": name_of(node.target),
            "arguments": shown(template, keywords),
            "call": Start(TorchCall(name_of(node.target), template, keywords)),
            "types": [_TICKET],
            "group": group,
            "bytes": dim_max(_bytes([h.type for h in operands.handles]), _bytes(types)),
        },
    )
    ticket, origin = builder.wrap(start.outputs[0]), builder.origin
    made: list[Any] = []

    def result(number: int) -> Any:
        if not made:
            with builder.at(origin):
                attrs: dict[str, Any] = {
                    "target": _WAIT,
                    "call": wait,
                    "types": types,
                    "group": group,
                }
                waited = REGISTRY["opaque"].emit(builder, [ticket], attrs)
            handles = [builder.wrap(v) for v in waited.outputs]
            pairs = zip(handles, flat_tensors(val), strict=True)
            made.extend(Complex(h) if t.dtype in COMPLEX_PARTS else h for h, t in pairs)
        return made[number]

    slots = tuple(Slot(make=partial(result, i)) for i in range(len(types)))
    return slots[0] if isinstance(val, torch.Tensor) else slots


def _bytes(types: Sequence[TensorType]) -> Dim:
    return sum((product(t.shape) * t.dtype.itemsize for t in types), 0)


def _named(given: Any) -> Any:
    """A process group by its name, which a graph can hold."""
    name = getattr(given, "group_name", None)
    return given if name is None else str(name)


def _group(node: fx.Node, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Name and ranks of the group, where this process knows it: `0: ranks 0 1`."""
    from torch.distributed import distributed_c10d

    parameters = node.target._schema.arguments
    given = {p.name: a for p, a in zip(parameters, args, strict=False)} | kwargs
    if "group_name" not in given:
        return ""
    name = str(_named(given["group_name"]))
    try:
        group = distributed_c10d._resolve_process_group(name)
        ranks = distributed_c10d.get_process_group_ranks(group)
    except (RuntimeError, ValueError, KeyError):  # a graph that was captured elsewhere
        return name
    return f"{name}: ranks {' '.join(map(str, ranks))}"
