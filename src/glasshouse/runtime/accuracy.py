"""How exact each kernel is: its ops replayed in float64 on what the kernel really read.

The error of a kernel has two parts. Its own: its output against the replay on its actual operands.
What it inherited: that replay against the true value, computed in float64 from the model's inputs.
Fusion is not broken for it, because operands and outputs of kernels lie in memory anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.ir.dtype import DType, bfloat16, float16, float32, float64, from_storage
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.sources import CONSTANT, INPUT
from glasshouse.ir.types import tensor_type
from glasshouse.lower.program import Step
from glasshouse.numerics import compare
from glasshouse.numpy_ref.executor import bind_sizes, run
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.module import Module

_NARROW: tuple[DType, ...] = (float32, float16, bfloat16)


@dataclass(frozen=True)
class KernelError:
    """Largest errors of one output, relative to its largest element; infinite where an element is
    NaN or infinite and should not be (`wrong` of them, the first one `at`)."""

    node: Node
    port: int
    own: float
    inherited: float
    max_abs: float
    max_rel: float
    wrong: int = 0
    at: tuple[int, ...] = ()


def measure_errors(module: Module, inputs: Sequence[Any]) -> list[KernelError]:
    """Own and inherited error of every kernel's output, for these inputs."""
    true = _true_values(module.graph, inputs)
    errors: list[KernelError] = []
    types = [v.type for v in module.graph.inputs]
    sizes = bind_sizes(types, [np.asarray(x) for x in inputs])

    def see(step: Step, read: Callable[[Value], Array]) -> None:
        node = step.node
        operands = [_wide(read(v), v.type.dtype) for v in node.inputs]
        made = [read(v) for v in node.outputs]
        sizes.update(bind_sizes([v.type for v in node.outputs], made))
        replayed = _replay(node, operands, sizes)
        for value, held, exact in zip(node.outputs, made, replayed, strict=True):
            wanted = true[value]
            # Where data decides a size, float64 may decide otherwise; then nothing is comparable.
            if value.type.dtype not in _NARROW or not exact.size or wanted.shape != exact.shape:
                continue
            actual = _wide(held, value.type.dtype)
            own, total = compare(actual, exact), compare(actual, wanted)
            inherited = compare(exact, wanted).of_largest
            worst = own if own.wrong else total
            errors.append(
                KernelError(
                    node, value.index, own.of_largest, inherited, total.max_abs, total.of_largest,
                    worst.wrong, worst.at if worst.wrong else (),
                )
            )  # fmt: skip

    module.watch(inputs, see)
    return errors


def _wide(array: Array, dtype: DType) -> Array:
    plain = from_storage(array, dtype)
    return plain.astype(np.float64) if dtype.is_float else np.array(plain)


def _true_values(graph: Graph, inputs: Sequence[Any]) -> dict[Value, Array]:
    wide, twin = widened(graph)
    seen: dict[Value, Array] = {}

    def observe(node: Node, outputs: Sequence[Array]) -> None:
        seen.update(zip(node.outputs, outputs, strict=True))

    arrays = [_wide(np.asarray(x), v.type.dtype) for x, v in zip(inputs, graph.inputs, strict=True)]
    run(wide, arrays, observer=observe)
    return {value: seen[twin[value]] for value in twin}


def _replay(node: Node, operands: Sequence[Array], sizes: dict[str, int]) -> list[Array]:
    """The node's ops in float64 on these operands."""
    alone = Graph()
    twin: dict[Value, Value] = {}
    for value in dict.fromkeys(node.inputs):
        type = value.type
        attrs = {"dtype": type.dtype, "shape": type.shape, "name": ""}
        made = alone._add(INPUT, (), attrs, (type,), value.node.origin)
        alone.inputs.append(made.output)
        twin[value] = made.output
    copy = alone._add(
        node.op, tuple(twin[v] for v in node.inputs), node.attrs,
        [v.type for v in node.outputs], node.origin,
    )  # fmt: skip
    alone._set_outputs(copy.outputs)
    by_value = dict(zip(node.inputs, operands, strict=True))
    given = [by_value[v] for v in dict.fromkeys(node.inputs)]
    return run(widened(alone)[0], given, sizes=sizes)


def widened(graph: Graph) -> tuple[Graph, dict[Value, Value]]:
    """The same graph with every narrow float as float64, and which value became which."""
    out = Graph(graph.name)
    twin: dict[Value, Value] = {}
    for node in graph.nodes:
        attrs = dict(node.attrs)
        if attrs.get("dtype") in _NARROW:
            attrs["dtype"] = float64
        body = attrs.get("body")
        if isinstance(body, Graph):
            attrs["body"] = widened(body)[0]
        data = attrs.get("data")
        if node.op is CONSTANT and data is not None and node.output.type.dtype in _NARROW:
            attrs["data"] = from_storage(data, node.output.type.dtype).astype(np.float64)
        types = [
            tensor_type(float64 if v.type.dtype in _NARROW else v.type.dtype, v.type.shape)
            for v in node.outputs
        ]
        inputs = tuple(twin[v] for v in node.inputs)
        made = out._add(node.op, inputs, attrs, types, node.origin, node.id)
        twin.update(zip(node.outputs, made.outputs, strict=True))
    out.inputs = [twin[v] for v in graph.inputs]
    out._set_outputs([twin[v] for v in graph.outputs], graph.output_names)
    return out, twin
