"""Whether the graph of a training step is the step: its loss, and what it makes of the parameters
and of the optimiser's state, compared with PyTorch in float64 over some steps.

One step does not tell: momentum is 0 before the first, and whatever multiplies it is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glasshouse.checking.finding import Finding, place
from glasshouse.checking.frontend import same_within
from glasshouse.ir.graph import Graph, Value
from glasshouse.numerics.measure import compare
from glasshouse.numerics.truth import relative, values_of
from glasshouse.numerics.widen import Array
from glasshouse.ops.random import RUN_SEED

STEPS = 3


def step_findings(
    model: Any, loss: Any, optimizer: Any, args: Sequence[Any], keywords: Mapping[str, Any],
    graph: Graph, given: Sequence[Array],
) -> tuple[list[Finding], str]:  # fmt: skip
    """The first value that a step computes otherwise than PyTorch, and in words what was compared.

    Steps that draw random numbers are not compared: PyTorch draws others.
    """
    from glasshouse.checking.eager_step import EagerStep

    if any(n.attrs["name"] == RUN_SEED for n in graph.updates):
        return [], "not compared with PyTorch's steps: the model draws random numbers"
    try:
        eager = EagerStep(model, loss, optimizer)
        wanted = [eager.run(args, keywords) for _ in range(STEPS)]
    except Exception as refused:  # whatever the model's own code raises for float64
        return [], f"PyTorch could not train the model in float64: {refused}"
    name = type(optimizer).__name__
    updated = {n.attrs["name"]: value for n, value in graph.updates.items()}
    held: dict[str, Array] = {}
    worst, limit = 0.0, same_within(graph)
    for number, right in enumerate(wanted, 1):
        values = values_of(graph, given, held)
        made = [values.by_place[p] for p in values.results]
        results: dict[str, tuple[Value, Array]] = {"loss": (graph.outputs[0], made[0])}
        new = zip(updated.items(), made[len(graph.outputs) :], strict=True)
        results |= {key: (value, array) for (key, value), array in new}
        in_order = sorted(results.items(), key=lambda pair: pair[1][0].node.id)
        for key, (value, array) in in_order:
            if key not in right:
                continue
            error = relative(compare(array.reshape(right[key].shape), right[key]))
            worst = max(worst, error)
            if not error <= limit:
                node = value.node
                what = f"after step {number} {key} is not what PyTorch ({name}) makes it"
                op = node.origin.label("torch op") or node.op.name
                where = place(node)
                return [Finding("frontend", what, op, where, error=error, tolerance=limit)], ""
        held = {key: array for key, (_, array) in results.items() if key != "loss"}
    count = len([k for k in updated if k in wanted[0]])
    return [], (
        f"loss and {count} parameters and states are PyTorch's after each of {STEPS} steps, "
        f"in float64 (error {worst:.1g})"
    )
