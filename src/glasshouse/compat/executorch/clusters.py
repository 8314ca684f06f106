"""Which nodes form a quantised cluster where nobody marked one: dequantize, op, quantize.

A cluster is a few ops, each of which feeds only the next, that read at least one dequantize and
whose result at least one quantize takes; with all of these dequantize and quantize nodes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from glasshouse.compat.executorch.names import op_name
from glasshouse.formats.kinds import kind_of

# convolution, batch norm, residual add and activation are what quantisers keep in one piece; a
# longer run between dequantize and quantize is a part of the model that stayed in float.
MAX_OPS = 4


def is_dequantize(node: Any) -> bool:
    return _base(node).startswith("dequantize_")


def is_quantize(node: Any) -> bool:
    return _base(node).startswith("quantize_")


def _base(node: Any) -> str:
    """ "quantize_per_tensor" of "quantized_decomposed.quantize_per_tensor.default"."""
    if node.op != "call_function":
        return ""
    parts = op_name(node.target).split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def find_clusters(nodes: Sequence[Any], marked: Iterable[Any]) -> dict[Any, str]:
    """Name of the cluster of each fx node that is in one; a cluster with a marked node is none."""
    taken = set(marked)
    ops = [
        n for n in nodes
        if n.op == "call_function" and not is_quantize(n) and not is_dequantize(n)
    ]  # fmt: skip
    pieces = _pieces(ops)
    out: dict[Any, str] = {}
    for piece in pieces:
        before = [n for op in piece for n in op.all_input_nodes if is_dequantize(n)]
        after = [n for op in piece for n in op.users if is_quantize(n)]
        real = [op for op in piece if op.target is not operator.getitem]
        whole = [*before, *piece, *after]
        if not before or not after or len(real) > MAX_OPS or any(n in taken for n in whole):
            continue
        heavy = [op for op in real if kind_of(op_name(op.target)) in ("conv", "matmul")]
        name = (heavy or real or piece)[0].name
        for node in whole:
            # A dequantize that several ops read stays with the first of them.
            out.setdefault(node, name)
    return out


def _pieces(ops: Sequence[Any]) -> list[list[Any]]:
    """The ops cut into runs in which each op but the last feeds the next alone."""
    place = {op: i for i, op in enumerate(ops)}
    root = list(range(len(ops)))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for i, op in enumerate(ops):
        for producer in op.all_input_nodes:
            j = place.get(producer)
            # Taking one of several results apart is no second use of the op.
            if j is not None and (len(producer.users) == 1 or op.target is operator.getitem):
                root[find(i)] = find(j)
    pieces: dict[int, list[Any]] = {}
    for i, op in enumerate(ops):
        pieces.setdefault(find(i), []).append(op)
    return list(pieces.values())
