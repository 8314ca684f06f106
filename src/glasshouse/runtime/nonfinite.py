"""Where NaN and infinite values come from: the first op that makes them out of finite ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glasshouse.errors import GlasshouseError
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.lower.program import Call, Step
from glasshouse.numpy_ref.executor import run
from glasshouse.runtime.arrays import Array


@dataclass(frozen=True)
class NonFinite:
    """Elements of an op's result that are not finite."""

    node: Node  # the op; that of the kernel if none of its ops gives such values by itself
    kernel: str
    what: str  # "NaN" or "infinite"
    count: int
    at: tuple[int, ...]  # in the kernel's result
    inputs: str  # what it was given: "its inputs are finite"

    @property
    def op(self) -> str:
        return self.node.op.name

    def __str__(self) -> str:
        where = f"{self.node.origin.source}"
        named = f"{self.op}, {where}" if where else self.op
        plural = "" if self.count == 1 else "s"
        return f"{self.what}: {named}, {self.count} element{plural}; {self.inputs}"


def first_op(
    step: Step, alone: Graph, stored: Sequence[Array], actual: Array, bad: Array
) -> NonFinite:
    """The op inside a step that made what is `bad` of its result `actual`.

    Its ops are run one by one on what the kernel read, in their own types. If all of that is
    finite, the kernel made it.
    """
    kernel = step.kernel.name if isinstance(step, Call) else f"fallback_{step.node.op.name}"
    what = "NaN" if np.any(np.isnan(actual[bad])) else "infinite"
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
    seen: list[tuple[Node, Array]] = []
    body = step.node.attrs.get("body")
    graph = body if step.node.op.name == "fused" and isinstance(body, Graph) else alone

    def observe(node: Node, outputs: Sequence[Array]) -> None:
        seen.extend((node, array) for array in outputs)

    clean = all(_is_clean(a, what) for a in stored)
    try:
        given = stored if graph is alone else _by_position(step.node, stored)
        run(graph, given, observer=observe)
    except GlasshouseError:
        seen = []
    for node, array in seen:
        if node.op.kind is Kind.SOURCE or _is_clean(array, what):
            continue
        if all(_is_clean(a, what) for n, a in seen if n in {v.node for v in node.inputs}):
            where = node if graph is not alone else step.node
            wrong = np.isnan(array) if what == "NaN" else np.isinf(array)
            count = int(np.count_nonzero(wrong))
            return NonFinite(where, kernel, what, count, at, "its inputs are finite")
        break
    count = int(np.count_nonzero(bad))
    said = f"its inputs have {what}" if not clean else "its inputs are finite, its ops give none"
    return NonFinite(step.node, kernel, what, count, at, said)


def _by_position(node: Node, stored: Sequence[Array]) -> list[Array]:
    by_value = dict(zip(dict.fromkeys(node.inputs), stored, strict=True))
    return [by_value[v] for v in node.inputs]


def _is_clean(array: Array, what: str) -> bool:
    if array.dtype.kind != "f":
        return True
    return not np.any(np.isnan(array)) if what == "NaN" else not np.any(np.isinf(array))
