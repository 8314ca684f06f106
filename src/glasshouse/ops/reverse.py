"""How gradients are computed: reverse mode over nodes in order, of tensors and of graphs.

One pass backwards, one call of each op's `vjp`, no recursion. Every node that is made names the
forward node whose gradient it is part of (`Origin.grad_of`), has that node's source, and belongs
to the phase "backward".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from glasshouse.errors import GradientError
from glasshouse.ir.builder import Builder
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import NoGradient
from glasshouse.ir.origin import Origin

At = Callable[[Origin], AbstractContextManager[None]]


def backward_origin(node: Node) -> Origin:
    """The origin of what is part of the gradient of `node`."""
    forward = node.origin
    kept = tuple(pair for pair in forward.labels if pair[0] != "phase")
    return Origin(
        source=forward.source,
        name=forward.name,
        grad_of=node.id,
        labels=(*kept, ("phase", "backward")),
    )


def dependents(order: Sequence[Node], wrt: Sequence[Value]) -> set[Value]:
    """`wrt` and all values in `order` that are floats and computed from them."""
    reached = set(wrt)
    for node in order:
        for value in node.inputs:
            if value in reached:
                reached.update([v for v in node.outputs if v.type.dtype.is_float])
                break
    return reached


def reverse(
    builder: Builder,
    at: At,
    order: Sequence[Node],
    seeds: Mapping[Value, Any],
    wrt: Sequence[Value],
    *,
    independent: bool = False,
    rules: Mapping[Node, Callable[[Sequence[Any]], Sequence[Any]]] | None = None,
) -> list[Any]:
    """For each of `wrt` the handle of its gradient, or None where nothing flows to it.

    `order` holds the nodes between `wrt` and the seeds, producers first; `seeds` are the gradients
    that arrive from outside. With `independent`, one of `wrt` that is computed from another counts
    as a variable of its own: nothing flows through it. `rules` has nodes whose gradient is not
    their op's: from the gradients that arrive to those of the operands.
    """
    reached = dependents(order, wrt)
    targets = set(wrt)
    grads: dict[Value, Any] = {v: g for v, g in seeds.items() if v in reached}
    for node in reversed(order):
        outputs = node.outputs
        arrived = [None if independent and v in targets else grads.get(v) for v in outputs]
        if not any(g is not None for g in arrived):
            continue
        if not any(v in reached for v in node.inputs):
            continue
        for value in outputs:
            if value not in targets:
                grads.pop(value, None)
        with at(backward_origin(node)):
            rule = rules.get(node) if rules else None
            found = rule(arrived) if rule else _vjp(builder, node, outputs, arrived)
        for value, grad in zip(node.inputs, found, strict=True):
            if grad is None or value not in reached:
                continue
            _check(node, value, grad)
            if value in grads:
                with at(backward_origin(value.node)):
                    grads[value] = grads[value] + grad
            else:
                grads[value] = grad
    return [grads.get(v) for v in wrt]


def _vjp(
    builder: Builder, node: Node, outputs: Sequence[Value], arrived: Sequence[Any]
) -> Sequence[Any]:
    rule = node.op.vjp
    if isinstance(rule, NoGradient):
        raise GradientError(f"{node.op.name} has no gradient: {rule.why}", str(node.origin.source))
    handles = [builder.wrap(v) for v in (*node.inputs, *outputs)]
    given = arrived[0] if len(outputs) == 1 else tuple(arrived)
    found = rule(given, *handles, **node.attrs)
    if not isinstance(found, (tuple, list)):
        raise GradientError(
            f"the gradient of {node.op.name} is {found!r} of type {type(found).__name__}, not a "
            "tuple",
            str(node.origin.source),
            "vjp gives one gradient (or None) for each operand: `(g * 2.0,)`",
        )
    if len(found) != len(node.inputs):
        raise GradientError(
            f"{node.op.name} gives {len(found)} gradients for {len(node.inputs)} operands",
            str(node.origin.source),
        )
    return found


def _check(node: Node, value: Value, grad: Any) -> None:
    if getattr(grad, "type", None) is None:
        raise GradientError(
            f"{node.op.name} gives {grad!r} of type {type(grad).__name__} as a gradient",
            str(node.origin.source),
            "vjp computes with the handles that it is given: `g * 2.0`",
        )
    if grad.type != value.type:
        raise GradientError(
            f"{node.op.name} gives a gradient of {grad.type} for an operand of {value.type}",
            str(node.origin.source),
        )
