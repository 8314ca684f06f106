"""Calls of a compiled module with the arguments and results of its model.

Models of tensors alone never come here: their calls go straight to the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.ir.graph import Graph
from glasshouse.ir.signature import Container, Leaf, Signature
from glasshouse.runtime.arrays import as_complex


def signature_for(graph: Graph) -> Signature:
    """The signature of a graph; one that came without (a file, a text) is called by its inputs."""
    if graph.signature is not None:
        return graph.signature
    names = [v.node.attrs["name"] or f"input_{i}" for i, v in enumerate(graph.inputs)]
    results = tuple(Leaf(i) for i in range(len(graph.outputs)))
    whole = (
        results[0] if len(results) == 1 else Container("tuple", tuple(range(len(results))), results)
    )
    return Signature({name: Leaf(i) for i, name in enumerate(names)}, whole)


def flat_inputs(
    signature: Signature, count: int, args: Sequence[Any], keywords: Mapping[str, Any]
) -> list[Any]:
    """The graph's inputs for a call; `count` tensors in their order are taken as they are."""
    if not keywords and is_flat(args, count) and not signature.takes_tensors_apart:
        return list(args)
    return signature.bind(args, keywords)


def is_flat(args: Sequence[Any], count: int) -> bool:
    """Whether arguments are a tensor for each input of the graph."""
    return len(args) == count and all(hasattr(x, "shape") for x in args)


def rebuilder(signature: Signature) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    """(the graph's inputs, its outputs) -> what the model returns; arguments that it writes to are
    written to."""
    rebuild = signature.rebuilder({"int": int, "complex": as_complex})

    def rebuilt(given: Sequence[Any], outputs: Sequence[Any]) -> Any:
        for number, output in signature.written:
            _write(given[number], outputs[output])
        return rebuild(outputs)

    return rebuilt


def _write(argument: Any, new: Any) -> None:
    if "complex" in str(argument.dtype):
        new = as_complex(new)
    if hasattr(argument, "copy_"):
        argument.copy_(new)
    else:
        np.copyto(argument, np.asarray(new))
