"""How PyTorch's higher-order ops become control flow with bodies, or are inlined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import fx

from glasshouse.errors import CaptureError
from glasshouse.frontend.torch.complex import Complex
from glasshouse.frontend.torch.decompose import flex_attention
from glasshouse.frontend.torch.given_gradient import passed_on
from glasshouse.frontend.torch.slot import Slot
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import bool_, int64
from glasshouse.ir.graph import Graph
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.pieces import concat, cut
from glasshouse.ops.shape import reshaped

if TYPE_CHECKING:
    from glasshouse.frontend.torch.importer import Importer

# Ops whose body runs exactly once: the place of the body and of its first operand.
_INLINED = {
    "wrap_with_set_grad_enabled": (1, 2), "wrap_with_autocast": (4, 5), "wrap": (0, 1),
    "tag_activation_checkpoint": (0, 1), "wrap_activation_checkpoint": (0, 1),
    "invoke_subgraph": (0, 2), "strict_mode": (0, 1), "hints_wrapper": (0, 1),
}  # fmt: skip


def convert(importer: Importer, module: Any, node: fx.Node, env: dict[Any, Any]) -> Any:
    """The results of a higher-order op, as slots."""
    name = node.target.name()
    if name in _INLINED:
        body, first = _INLINED[name]
        args = importer.values(list(node.args), env, read=False)
        operands = args[first:]
        if operands and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
        if name == "wrap_with_set_grad_enabled" and importer.stops and not args[0]:
            return _under_no_grad(importer, args[body], operands)
        return importer.run(args[body], operands)
    if name == "flex_attention":
        found = flex_attention(node, {n: env[n] for n in node.all_input_nodes})
        return importer.run(found[0], [env[n] for n in found[1]])
    known = _CONTROL.get(name)
    if known is None:
        raise CaptureError(
            f"the higher-order op {name} cannot be captured", str(importer.sources.of(node)),
            f"there are {', '.join([*_CONTROL, *_INLINED])}",
        )  # fmt: skip
    args = importer.values(list(node.args), env)
    return tuple(Slot(h) for h in known(importer, *args))


def _under_no_grad(importer: Importer, body: Any, operands: Sequence[Any]) -> Any:
    """What such a body gives has no gradient; what it writes to keeps the one that it had."""
    roots = {id(o.root): o.root for o in operands if isinstance(o, Slot)}.values()
    before = [(root, root.read()) for root in roots]
    results = importer.run(body, operands)
    for root, old in before:
        new = root.read()
        if new is not old and (isinstance(old, Complex) or old.dtype.is_float):
            root.write(passed_on(importer, old, new))
    return _without_gradient(importer, results, operands)


def _without_gradient(importer: Importer, results: Any, operands: Sequence[Any]) -> Any:
    if isinstance(results, (list, tuple)):
        return tuple(_without_gradient(importer, r, operands) for r in results)
    if any(results is o for o in operands):  # written to in place
        return results
    value = results.read() if isinstance(results, Slot) else None
    if value is None or isinstance(value, Complex) or not value.dtype.is_float:
        return results
    return Slot(importer.without_gradient(value))


def body_graph(
    importer: Importer,
    module: Any,
    operands: Sequence[Any],
    types: Sequence[TensorType | None] | None = None,
) -> Graph:
    """A body's graph, for operands like these; numbers among them are fixed in it.

    `types` are what it must give: results are cast, and shapes that PyTorch writes otherwise are
    taken as they should be.
    """
    from glasshouse.frontend.torch.importer import Importer as Inner

    builder = GraphBuilder("body", importer.builder.origin)
    inner = Inner(builder, importer.symbols, importer.sources)
    slots = [
        Slot(builder.input(o.type.dtype, o.type.shape)) if is_operand(o) else o for o in operands
    ]
    results = inner.run(module, slots)
    many = results if isinstance(results, (list, tuple)) else [results]
    handles = [_result(builder, r) for r in many]
    if types is not None:
        handles = [_fitted(h, t) for h, t in zip(handles, types, strict=True)]
    importer.refused += inner.refused
    return builder.finish(*handles)


def is_operand(given: Any) -> bool:
    return hasattr(given, "builder")


def _result(builder: GraphBuilder, result: Any) -> Any:
    if isinstance(result, Slot):
        found = result.read()
        if isinstance(found, Complex):
            raise CaptureError("a body gives a complex tensor", builder.where())
        return found
    if isinstance(result, (bool, int, SymDim)):
        kind = bool_ if isinstance(result, bool) else int64
        return builder.apply("full", shape=(), value=result, dtype=kind)
    if is_operand(result):
        return result
    raise CaptureError(f"a body gives {type(result).__name__}, not a tensor", builder.where())


def _fitted(handle: Any, wanted: TensorType | None) -> Any:
    if wanted is None or handle.type == wanted:
        return handle
    return reshaped(handle.cast(wanted.dtype), wanted.shape)


def _tensors(importer: Importer, operands: Any) -> list[Any]:
    """Operands that are tensors; sizes and numbers a loop carries become tensors too."""
    return [o if is_operand(o) else _result(importer.builder, o) for o in operands]


def _emit(importer: Importer, op: str, operands: Sequence[Any], **attrs: Any) -> list[Any]:
    node = REGISTRY[op].emit(importer.builder, list(operands), attrs)
    return [importer.builder.wrap(v) for v in node.outputs]


# ------------------------------------------------------------------------------------------- kinds
def _cond(importer: Importer, pred: Any, then: Any, other: Any, operands: Any = ()) -> list[Any]:
    given = [o for o in operands if is_operand(o)]
    first = body_graph(importer, then, operands)
    types = [v.type for v in first.outputs]
    second = body_graph(importer, other, operands, types)
    flag = _tensors(importer, [pred])[0]
    flag = reshaped(flag.cast(bool_), ())
    return _emit(importer, "cond", [flag, *given], then=first, other=second)


def _while(
    importer: Importer, test: Any, body: Any, carried: Any, additional: Any = ()
) -> list[Any]:
    """What a loop only reads is carried too: a body sees its operands alone."""
    state = _tensors(importer, carried)
    fixed = [o for o in additional if is_operand(o)]
    operands = [*state, *additional]
    types: list[TensorType | None] = [o.type for o in state]
    flag = body_graph(importer, test, operands, [tensor_type(bool_, ())])
    step = body_graph(importer, body, operands, types)
    step._set_outputs([*step.outputs, *step.inputs[len(state) :]])
    out = _emit(importer, "while_loop", [*state, *fixed], test=flag, body=step)
    return out[: len(state)]


def _scan(importer: Importer, body: Any, init: Any, xs: Any, additional: Any = ()) -> list[Any]:
    state = _tensors(importer, init)
    fixed = [o for o in additional if is_operand(o)]
    slices = [_Slice(x) for x in xs]
    count = len(state)
    types: list[TensorType | None] = [o.type for o in state]
    step = body_graph(importer, body, [*state, *slices, *additional])
    missing = [None] * (len(step.outputs) - count)
    if [v.type for v in step.outputs[:count]] != types:
        step = body_graph(importer, body, [*state, *slices, *additional], [*types, *missing])
    return _emit(importer, "scan", [*state, *xs, *fixed], body=step, carries=count, scanned=len(xs))


def _map(importer: Importer, body: Any, xs: Any, additional: Any = ()) -> list[Any]:
    slices = [_Slice(x) for x in xs]
    step = body_graph(importer, body, [*slices, *additional])
    fixed = [o for o in additional if is_operand(o)]
    return _emit(importer, "scan", [*xs, *fixed], body=step, carries=0, scanned=len(xs))


def _associative_scan(importer: Importer, body: Any, xs: Any, additional: Any = ()) -> list[Any]:
    """Running results from the first element on: a scan whose carry is handed out as well."""
    first = [_Slice(x).taken(0) for x in xs]
    rest = [cut(x, 0, 1, x.shape[0]) for x in xs]
    slices = [_Slice(x) for x in rest]
    types = [h.type for h in first]
    step = body_graph(importer, body, [*first, *slices, *additional], types)
    step._set_outputs([*step.outputs, *step.outputs])
    fixed = [o for o in additional if is_operand(o)]
    out = _emit(
        importer, "scan", [*first, *rest, *fixed], body=step, carries=len(xs), scanned=len(xs)
    )
    return [
        concat(reshaped(head, (1, *head.shape)), tail, axis=0)
        for head, tail in zip(first, out[len(xs) :], strict=True)
    ]


class _Slice:
    """Stands for one slice of an operand: its type, without a node for it."""

    def __init__(self, x: Any) -> None:
        self.builder = x.builder
        self.type = tensor_type(x.dtype, x.shape[1:])
        self._of = x

    def taken(self, place: int) -> Any:
        return reshaped(cut(self._of, 0, place, place + 1), self.type.shape)


_CONTROL: dict[str, Callable[..., list[Any]]] = {
    "cond": _cond, "while_loop": _while, "scan": _scan, "map_impl": _map, "map": _map,
    "associative_scan": _associative_scan,
}  # fmt: skip
