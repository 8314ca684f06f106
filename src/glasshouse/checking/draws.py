"""Whether a model that draws random numbers is PyTorch's: its draws by distribution, all else under
the same numbers.

The generators differ, so PyTorch's own numbers cannot be had. Instead PyTorch runs the exported
program op by op, and every op behind one that draws reads what the graph has drawn: those must be
equal, as in any other model. What PyTorch itself draws, from the same operands, is kept beside the
graph's, over several runs; the two must have one distribution, along rows and columns too, where
numbers that should be independent and are not would show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.checking.finding import Finding, place
from glasshouse.checking.frontend import closest, nodes_by_name, same_within
from glasshouse.errors import GlasshouseError
from glasshouse.ir.graph import Graph, Node
from glasshouse.numerics.distribution import RATE, Apart, apart
from glasshouse.numerics.truth import Values, values_of
from glasshouse.numerics.widen import Array
from glasshouse.ops.random import RUN_SEED

DRAWS = frozenset({"uniform", "normal", "dropout"})
ELEMENTS = 20_000
"""Wanted of each draw, over all runs: shares that differ by 3 in 100 are then told apart."""
RUNS = (2, 64)
_STRIDE = 7919 << 20  # between the seeds of two runs: each draws from 2**20 seeds at most


def draw_findings(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    graph: Graph,
    inputs: Sequence[Array],
) -> tuple[list[Finding], str]:
    """What differs between a PyTorch model and its graph, and in words how it was compared."""
    from glasshouse.checking.eager import ExportedOps

    if hasattr(model, "graph_signature"):
        model = model.module()
    made = nodes_by_name(graph)
    drawing = drawing_ops(graph)
    samples: dict[str, list[tuple[Array, Array]]] = defaultdict(list)
    program: ExportedOps | None = None
    worst, run, runs, limit = 0.0, 0, RUNS[1], same_within(graph)
    while run < runs:
        truth = values_of(graph, inputs, {RUN_SEED: np.asarray((run + 1) * _STRIDE)})
        ours = {name: _given(nodes, truth) for name, nodes in drawing.items()}
        try:
            program = program or ExportedOps(model, args, kwargs)
            ops = program.run(ours, seed=run)
        except (GlasshouseError, RuntimeError) as refused:
            return [], f"not compared with PyTorch, which could not run it op by op: {refused}"
        for op in ops:
            if not op.arrays or op.name not in made:
                continue
            theirs = op.arrays[0]
            if op.name in drawing:
                if _by_pytorch(drawing[op.name]):
                    continue
                drawn = [a for a in ours[op.name] if a.size == theirs.size]
                if drawn:
                    samples[op.name].append((drawn[-1].reshape(theirs.shape), theirs))
                continue
            found = [truth.by_place[n.id, v.index] for n in made[op.name] for v in n.outputs]
            if not any(a.size == theirs.size for a in found):
                continue
            error = closest(theirs, found)
            worst = max(worst, error)
            if not error <= limit:
                node = made[op.name][-1]
                what = "the graph is not the model, given the numbers that it draws"
                label = node.origin.label("torch op") or op.cls
                return [
                    Finding("frontend", what, label, place(node), module=op.path, error=error,
                            tolerance=limit)
                ], ""  # fmt: skip
        least = min((s[0][0].size for s in samples.values()), default=0)
        runs = min(RUNS[1], max(RUNS[0], -(-ELEMENTS // max(least, 1))))
        run += 1
    same = sum(map(_by_pytorch, drawing.values()))
    return _judged(samples, drawing), _told(samples, same, worst)


def drawing_ops(graph: Graph) -> dict[str, list[Node]]:
    """Ops of the exported program that draw, with what each became."""
    return {
        name: nodes
        for name, nodes in nodes_by_name(graph).items()
        if any(n.op.name in DRAWS for n in nodes) or _by_pytorch(nodes)
    }


def _by_pytorch(nodes: Sequence[Node]) -> bool:
    """Whether PyTorch's own op draws, which has no code here."""
    from glasshouse.frontend.torch.opaque import TorchCall

    calls = [n.attrs["call"] for n in nodes if n.op.name == "opaque"]
    return any(isinstance(c, TorchCall) and c.draws for c in calls)


def _given(nodes: Sequence[Node], truth: Values) -> list[Array]:
    return [truth.by_place[n.id, v.index] for n in nodes for v in n.outputs]


def _judged(
    samples: Mapping[str, Sequence[tuple[Array, Array]]], drawing: Mapping[str, Sequence[Node]]
) -> list[Finding]:
    """The first draw whose numbers are distributed otherwise than PyTorch's."""
    for name, pairs in samples.items():
        found = _differs(pairs, RATE / len(samples))
        if found is None:
            continue
        how, difference = found
        node = drawing[name][-1]
        return [
            Finding(
                "random", f"{difference}{how}", node.origin.label("torch op") or node.op.name,
                place(node), module=node.origin.source.path, error=difference.distance,
                tolerance=difference.allowed,
            )
        ]  # fmt: skip
    return []


def _differs(pairs: Sequence[tuple[Array, Array]], rate: float) -> tuple[str, Apart] | None:
    """Element by element, then means of rows and of columns."""
    axes = [
        ("", None),
        (", averaged over its last axis", -1),
        (", averaged over its first axis", 0),
    ]
    for how, axis in axes:
        sides = []
        for side in (0, 1):
            arrays = [p[side] for p in pairs]
            if axis is not None:
                arrays = [a.mean(axis) for a in arrays if a.ndim > 1]
            if sum(a.size for a in arrays) < 4:
                break
            sides.append(np.concatenate([np.ravel(a) for a in arrays]))
        if len(sides) == 2 and (difference := apart(sides[0], sides[1], rate / len(axes))):
            return how, difference
    return None


def _told(samples: Mapping[str, Sequence[tuple[Array, Array]]], same: int, worst: float) -> str:
    rest = f"all other ops are PyTorch's under the same numbers, in float64 (error {worst:.1g})"
    if same:
        rest = f"{same} PyTorch itself draws, under the same seed; {rest}"
    if not samples:
        return rest
    least = min(sum(a.size for a, _ in pairs) for pairs in samples.values())
    draws = f"{len(samples)} draws are" if len(samples) > 1 else "1 draw is"
    return (
        f"{draws} compared with PyTorch's by distribution, because the generators differ (mean, "
        f"mean square, Kolmogorov-Smirnov over {least} numbers or more; a false alarm in "
        f"{1 / RATE:,.0f} checks); {rest}"
    )
