"""Tensors that a graph of Dynamo's holds itself become arguments of it.

An optimiser's step is captured so: parameters and their averages are attributes of the graph, which
writes to them. As arguments they are written in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from glasshouse.frontend.dynamo.names import is_weight


def lift_weights(module: fx.GraphModule, mode: Any) -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """The graph with placeholders, behind the others, for what it has as attributes, each once; and
    these. `mode` is the fake mode that it is traced in. Dynamo looks at its own graph later: where
    there is something to lift, that is done in a copy."""
    held: dict[int, tuple[torch.Tensor, list[str]]] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            found = _attribute(module, str(node.target))
            if is_weight(found):
                held.setdefault(id(found), (found, []))[1].append(node.name)
    if not held:
        return module, []
    graph = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    result = graph.graph_copy(module.graph, copied)
    graph.output(result)
    twins = {old.name: new for old, new in copied.items()}
    with graph.inserting_before(next(n for n in graph.nodes if n.op != "placeholder")):
        places = [graph.placeholder(f"held_{i}") for i in range(len(held))]
    for place, (tensor, names) in zip(places, held.values(), strict=True):
        place.meta["example_value"] = mode.from_tensor(tensor, static_shapes=True)
        for name in names:
            twins[name].replace_all_uses_with(place)
            graph.erase_node(twins[name])
    return fx.GraphModule(module, graph), [tensor for tensor, _ in held.values()]


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name, None)
    return module


def called_with(call: Callable[..., Any], held: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """The call with these tensors behind the arguments that it is given."""
    return call if not held else lambda *flat: call(*flat, *held)
