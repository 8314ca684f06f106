"""Whether a traced graph is the model: compared with PyTorch in float64, module by module.

Where a module differs, the exported program is run op by op, and the first op that differs is to
blame.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glasshouse.checking.finding import Finding, place
from glasshouse.errors import GlasshouseError
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.numerics.bound import ROOM, unit_of
from glasshouse.numerics.measure import compare
from glasshouse.numerics.truth import Values, relative
from glasshouse.numerics.widen import Array

WIDE, MOST, NARROW = 1e-8, 1e-2, 1e-3
"""What is still the same in float64, at least and at most; and where the model fixes float32."""


def is_eager(model: Any, args: Sequence[Any]) -> bool:
    """Whether this is something that PyTorch runs by itself: a model, a program, a function of
    tensors."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        return True
    return callable(model) and any(isinstance(a, torch.Tensor) for a in args)


def with_inputs(
    args: Sequence[Any], keywords: Mapping[str, Any], inputs: Sequence[Array]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Arguments of a model with these arrays in the place of their tensors, in their order."""
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten((list(args), dict(keywords)))
    places = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "shape")]
    if len(places) != len(inputs):
        return args, keywords
    import torch

    for i, array in zip(places, inputs, strict=True):
        own = leaves[i]
        tensor = isinstance(own, torch.Tensor)
        leaves[i] = torch.from_numpy(np.array(array)).to(own.dtype) if tensor else array
    made = pytree.tree_unflatten(leaves, spec)
    return made[0], made[1]


def frontend_findings(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], graph: Graph, truth: Values
) -> tuple[list[Finding], str]:
    """What differs between a PyTorch model and its graph, and in words what was compared.

    Modules are compared in the order in which they end, so that the first that differs is the
    innermost. The graph draws no random numbers.
    """
    from glasshouse.checking.eager import run_modules

    if hasattr(model, "graph_signature"):
        model = model.module()
    try:
        eager = run_modules(model, args, kwargs)
    except Exception as refused:  # whatever the model's own code raises for float64
        return [], f"PyTorch could not run the model in float64: {refused}"
    limit = same_within(graph) if eager.wide else NARROW
    made = _made_by_module(graph)
    seen = 0
    worst = 0.0
    for value in eager.values:
        candidates = [truth.by_place[p] for p in made.get(value.path, ())]
        for array in value.arrays:
            alike = [c for c in candidates if c.size == array.size]
            if not alike:
                continue  # only moved, or not computed at all
            seen += 1
            error = min(relative(compare(c.reshape(array.shape), array)) for c in alike)
            worst = max(worst, error)
            if not error <= limit:
                found = Finding(
                    "frontend", f"the graph of {value.path} ({value.cls}) is not the module",
                    module=value.path, error=error, tolerance=limit,
                )  # fmt: skip
                return [_narrowed(found, model, args, kwargs, graph, truth, limit)], ""
    outputs = [truth.by_place[p] for p in truth.results[: len(graph.outputs)]]
    paired = len(outputs) == len(eager.results)
    for number, array in enumerate(eager.results):
        error = closest(array, outputs[number : number + 1] if paired else outputs)
        worst = max(worst, error)
        if not error <= limit:
            found = Finding(
                "frontend", f"output {number} of the graph is not what the model returns",
                error=error, tolerance=limit,
            )  # fmt: skip
            return [_narrowed(found, model, args, kwargs, graph, truth, limit)], ""
    kind = "float64" if eager.wide else "float32, which the model fixes"
    modules = f"{seen} module outputs and " if seen else ""
    return [], f"{modules}the results are PyTorch's, in {kind} (error {worst:.1g})"


def type_findings(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], graph: Graph
) -> list[Finding]:
    """Outputs whose shape or element type is not that of the model, in its own types."""
    from glasshouse.checking.eager import result_types

    if hasattr(model, "graph_signature"):
        model = model.module()
    wanted = result_types(model, args, kwargs)
    if len(wanted) != len(graph.outputs):
        return []
    out = []
    for number, (value, (dtype, shape)) in enumerate(zip(graph.outputs, wanted, strict=True)):
        ours = value.type
        fixed = len(ours.shape) == len(shape) and all(
            not isinstance(a, int) or a == b for a, b in zip(ours.shape, shape, strict=True)
        )
        if ours.dtype is not dtype or not fixed:
            given = "x".join(map(str, shape)) or "one number"
            out.append(
                Finding(
                    "frontend", f"output {number} of the graph is {ours}, the model returns "
                    f"{dtype.name} of {given}", value.node.origin.label("torch op") or
                    value.node.op.name, place(value.node),
                )
            )  # fmt: skip
    return out


def same_within(graph: Graph) -> float:
    """What graph and model may differ by, both in float64.

    Of `x * 0.1` the graph has the number in the type of `x`, as PyTorch's kernels do, and PyTorch
    in float64 does not: float32 makes 1.5e-8 of it, for each such op.
    """
    made = [n for n in graph.nodes if n.inputs]
    room = ROOM * unit_of(made) * math.sqrt(len(made))
    return float(np.clip(room, WIDE, MOST))


def closest(array: Array, candidates: Sequence[Array]) -> float:
    """The error of the candidate that is nearest to an array, of those that have its size."""
    alike = [c.reshape(array.shape) for c in candidates if c.size == array.size]
    return min((relative(compare(c, array)) for c in alike), default=float("inf"))


def _made_by_module(graph: Graph) -> dict[str, list[tuple[int, int]]]:
    """Values that leave each module: read by an op outside of it, or held by the graph."""
    out: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for node in graph.nodes:
        if node.op.kind is Kind.SOURCE:
            continue
        path = node.origin.source.path
        for value in node.outputs:
            users = [u.origin.source.path for u in value.users]
            inside = path
            while inside:
                leaves = graph.is_held(value) or not all(_is_inside(u, inside) for u in users)
                if not leaves:
                    break  # it does not leave the modules around this one either
                out[inside].append((node.id, value.index))
                inside = inside.rpartition(".")[0]
    return out


def _is_inside(path: str, module: str) -> bool:
    return path == module or path.startswith(f"{module}.")


def nodes_by_name(graph: Graph) -> dict[str, list[Node]]:
    """What each op of the exported program became, in the order of computing."""
    out: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.op.kind is not Kind.SOURCE:
            out[node.origin.name].append(node)
    return out


def _narrowed(
    found: Finding, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], graph: Graph,
    truth: Values, limit: float,
) -> Finding:  # fmt: skip
    """The finding with the op that is to blame, if op by op shows it."""
    from glasshouse.checking.eager import ExportedOps

    try:
        ops = ExportedOps(model, args, kwargs).run()
    except (GlasshouseError, RuntimeError):
        return found
    by_name = nodes_by_name(graph)
    for op in ops:
        made = by_name.get(op.name, [])
        arrays = [truth.by_place[n.id, v.index] for n in made for v in n.outputs]
        for wanted in op.arrays[:1]:
            alike = [a for a in arrays if a.size == wanted.size]
            if alike and not closest(wanted, alike) <= limit:
                label = made[-1].origin.label("torch op") or op.cls
                blamed = replace(
                    found, op=label, where=place(made[-1]), error=closest(wanted, alike)
                )
                return _undefined(blamed) if _has_ties(made, truth) else blamed
    return found


def _undefined(found: Finding) -> Finding:
    """Told and no fault."""
    what = "equal elements are ordered otherwise than by PyTorch, which defines no order for them"
    return replace(found, what=f"{what} (stable=True does)", fails=False)


def _has_ties(nodes: Sequence[Node], truth: Values) -> bool:
    """Whether one of the nodes orders a line in which elements are equal."""
    for node in nodes:
        if node.op.name in ("sort", "topk"):
            keys = truth.by_place[node.inputs[0].node.id, node.inputs[0].index]
            lines = np.moveaxis(np.sort(keys, node.attrs["axis"]), node.attrs["axis"], -1)
            if np.any(lines[..., 1:] == lines[..., :-1]):
                return True
    return False
