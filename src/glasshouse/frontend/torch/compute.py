"""How the results of a call come about: the op's spelling, PyTorch's decomposition of it,
or an opaque node; the first that does. What a way made before it gave up is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from glasshouse.errors import CaptureError, GlasshouseError, ShapeError
from glasshouse.frontend.torch.aten import BY_STEPS, IN_CONTEXT, Context, find
from glasshouse.frontend.torch.call import AtenCall
from glasshouse.frontend.torch.complex import Complex
from glasshouse.frontend.torch.decompose import decomposed
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS, dtype_of
from glasshouse.frontend.torch.opaque_nodes import opaque_call
from glasshouse.frontend.torch.slot import contents
from glasshouse.frontend.torch.sparse import sparse_spelling
from glasshouse.frontend.torch.traced_gradient import TracedGradient

if TYPE_CHECKING:
    from glasshouse.frontend.torch.importer import Importer


def compute(importer: Importer, call: AtenCall) -> Any:
    """The handle that a call gives, or a tuple of them."""
    spelling = sparse_spelling(call) or find(
        call.target._schema.name, call.target._overloadname, call.args
    )
    most = None if spelling is None else BY_STEPS.get(spelling)
    if most is not None and importer.stops and _is_lapacks(call, most):
        importer.refused.append((str(call.target), "its gradient is written with LAPACK's factors"))
        return as_opaque(importer, call)
    if spelling is not None:
        mark = importer.builder.graph._next_id
        try:
            return _as_declared(spell(importer, spelling, call), call.declared(), call.any_dtype)
        except Exception as error:  # arguments that nobody thought of: the op still runs
            refuse(importer, call, error, mark)
    if not call.written:
        found = _by_decomposition(importer, call)
        if found is not None:
            return found
    return as_opaque(importer, call)


def _is_lapacks(call: AtenCall, most: int) -> bool:
    matrix = next((a for a in call.args if getattr(a, "ndim", 0) >= 2), None)
    if matrix is None or not all(isinstance(d, int) for d in matrix.shape):
        return False
    return int(matrix.shape[-2]) > most


def spell(importer: Importer, spelling: Callable[..., Any], call: AtenCall) -> Any:
    """What a spelling gives for a call."""
    call = call.under_autocast()
    kwargs = {k: v for k, v in call.kwargs.items() if k not in call.written_names()}
    if spelling not in IN_CONTEXT:
        return spelling(*call.args, **kwargs)

    def write(number: int, new: Any) -> None:
        call.env[call.node.args[number]].assign(new)

    stopped = importer.without_gradient if importer.stops else None
    return spelling(Context(importer.builder, write, call.node, stopped), *call.args, **kwargs)


def refuse(importer: Importer, call: AtenCall, error: Exception, mark: int) -> None:
    """Note why a way did not do, and take back the nodes that it made: those from id `mark` on."""
    why = error.message if isinstance(error, GlasshouseError) else repr(error)
    importer.refused.append((str(call.target), why))
    graph = importer.builder.graph
    for id in range(graph._next_id - 1, mark - 1, -1):
        node = graph.find(id)
        if node is not None:
            graph._remove(node)


def as_opaque(importer: Importer, call: AtenCall) -> Any:
    """A node that PyTorch runs, and new values for the tensors that the op writes to."""
    if "val" not in call.node.meta:
        raise CaptureError(
            f"the type of {call.target} is not known", str(importer.sources.of(call.node)),
            "give example inputs, or a program that torch.export made",
        )  # fmt: skip
    names = call.written_names()
    places = [i if i < len(call.args) else n for i, n in zip(call.written, names, strict=True)]
    # Gradients of factorisations read results (factors, pivots) that the model does not.
    saves = importer.stops and "linalg" in call.target._schema.name
    result, values = opaque_call(
        importer.builder, importer.symbols, call.target, call.args, call.kwargs,
        call.node.meta["val"], places, None if saves else call.declared(),
    )  # fmt: skip
    for slot, value in zip(call.written_slots(), values, strict=True):
        slot.write(value)
    if importer.stops and not values:
        node = _plain_value(result).node
        importer.rules[node] = TracedGradient(importer, call, node, result)
    return result


def _plain_value(result: Any) -> Any:
    """The value of one of the handles that an opaque node gives."""
    found = next(r for r in pytree.tree_leaves(result) if r is not None)
    return (found.pairs if isinstance(found, Complex) else found).value


def _by_decomposition(importer: Importer, call: AtenCall) -> Any:
    """The results by way of simpler ops; None where one of those would be opaque."""
    found = decomposed(call.target, call.node.args, call.node.kwargs)
    if found is None:
        return None
    graph = importer.builder.graph
    mark = graph._next_id
    try:
        with importer.inside(importer.builder.origin):
            result = contents(importer.run(found[0], [call.env[n] for n in found[1]]))
        result = _as_declared(result, call.declared())
        new = [graph.find(id) for id in range(mark, graph._next_id)]
        needed = {n.attrs["target"] for n in new if n is not None and n.op.name == "opaque"}
        if needed and not importer.stops:  # autograd knows the gradient of the inner op
            raise CaptureError(f"its decomposition needs {', '.join(sorted(needed))}")
        return result
    except GlasshouseError as error:
        refuse(importer, call, error, mark)
        return None


def _as_declared(result: Any, val: Any, any_dtype: bool = False) -> Any:
    """The result in the element type that PyTorch gives it; an error where shapes differ."""
    if isinstance(val, (list, tuple)):
        given = result if isinstance(result, (list, tuple)) else (result,)
        if len(given) != len(val):
            raise ShapeError(f"{len(given)} results in the place of {len(val)}")
        return tuple(_as_declared(r, v, any_dtype) for r, v in zip(given, val, strict=True))
    if not isinstance(val, torch.Tensor) or result is None:
        return result
    if (val.dtype in COMPLEX_PARTS) != isinstance(result, Complex) and not any_dtype:
        raise ShapeError(f"{result.type} in the place of {val.dtype}")
    if not isinstance(result, Complex) and not any_dtype:
        result = result.cast(dtype_of(val.dtype))
    wanted = val.shape
    if len(wanted) != result.ndim:
        raise ShapeError(f"{result.type} in the place of {list(wanted)}")
    for have, size in zip(result.shape, wanted, strict=True):
        if isinstance(have, int) and isinstance(size, int) and have != size:
            raise ShapeError(f"{result.type} in the place of {list(wanted)}")
    return result
