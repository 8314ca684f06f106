"""Faults that show only at an edge: a second step, another size, a tie, the memory beside a tensor,
one of many layers; and faults of what is told (lines, origins, times) with every number right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from faults.fault import NATIVE, fault
from faults.native import in_dispatcher, in_text
from faults.planted import RULE, in_tiles, spelled, twisted
from glasshouse.backend.interp import elements
from glasshouse.ir import rewriter
from glasshouse.ir.graph import Node
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower import expand_norms
from glasshouse.passes import fold_constant as folding

Patch = pytest.MonkeyPatch


def in_elements(patch: Patch, op: str, change: Callable[..., Any]) -> None:
    """Let the interpreter compute an elementwise op otherwise than its meaning says."""
    patch.setattr(elements, "REGISTRY", {**REGISTRY, op: replace(REGISTRY[op], ref=change)})


# ------------------------------------------------------------------------------------------ passes
@fault("twelve", "pass: subgraph_rewrite", RULE("subtract-constant"), "op: subtract", "models.py:")
def one_of_twelve_layers_subtracts_the_other_way(patch: Patch) -> None:
    def change(made: Any, node: Node, rw: Rewriter) -> Any:
        if "layers.7" not in node.inputs[0].node.origin.source.path:
            return made
        x, half = (rw.expr(v) for v in node.inputs)
        return x * -1.0 + half

    twisted(patch, "subtract-constant", change)


@fault("square_bias", "pass: subgraph_rewrite", RULE("subtract-constant"), "op: subtract")
def a_row_is_broadcast_as_a_column(patch: Patch) -> None:
    def change(made: Any, node: Node, rw: Rewriter) -> Any:
        x, row = (rw.expr(v) for v in node.inputs)
        return x + (row * -1.0).apply("reshape", shape=[8, 1])

    twisted(patch, "subtract-constant", change)


@fault("torch_whole", "pass: fold_constant", RULE("fold"), "op: floor_divide", "models.py:")
def a_folded_quotient_is_rounded_towards_zero(patch: Patch) -> None:
    was = folding.run_node

    def run_node(node: Node, arrays: Any) -> Any:
        made = was(node, arrays)
        if node.op.name != "floor_divide":
            return made
        return [np.trunc(arrays[0] / arrays[1]).astype(made[0].dtype)]

    patch.setattr(folding, "run_node", run_node)


# ----------------------------------------------------------------------------------------- kernels
@fault("steps", "kernel: k0_", "inputs: halves", "models.py:")
def what_lies_halfway_is_rounded_up(patch: Patch) -> None:
    in_elements(patch, "round", lambda x: np.floor(x + np.float32(0.5)))


@fault("torch_whole", "kernel: k", "whole numbers differ", "op: argmax", "models.py:")
def the_last_of_equal_ones_wins(patch: Patch) -> None:
    def argmax(x: Any, axis: int, **attrs: Any) -> Any:
        flipped = REGISTRY["argmax"].ref(np.flip(x, axis), axis=axis, **attrs)
        return x.shape[axis] - 1 - flipped

    in_tiles(patch, "argmax", argmax)


@fault("torch_whole", "kernel: k", "inputs: halves")
def greater_holds_for_equal_ones_too(patch: Patch) -> None:
    in_elements(patch, "greater", np.greater_equal)


@fault("torch_masked", "kernel: k0_attention", "op: attention", "models.py:")
def attention_drops_its_mask(patch: Patch) -> None:
    def attention(*arrays: Any, **attrs: Any) -> Any:
        return REGISTRY["attention"].ref(*arrays[:3], **attrs)

    in_tiles(patch, "attention", attention)


@fault("torch_masked", "kernel: k1_attention", "op: attention", "models.py:")
def attention_sees_what_comes_later(patch: Patch) -> None:
    def attention(*arrays: Any, **attrs: Any) -> Any:
        return REGISTRY["attention"].ref(*arrays, **{**attrs, "causal": False})

    in_tiles(patch, "attention", attention)


@fault("torch_any_batch", "kernel: k", "op: mean", "inputs: other sizes")
def a_mean_divides_by_the_batch_that_was_traced(patch: Patch) -> None:
    was = expand_norms._count
    patch.setattr(expand_norms, "_count", lambda *a: was(*a) if isinstance(was(*a), float) else 4.0)


@fault("torch_step", "kernel: k", "models.py:")
def momentum_fades_too_fast(patch: Patch) -> None:
    def multiply(x: Any, y: Any) -> Any:
        return x * np.where(np.isclose(y, 0.7), np.float32(0.6), y)

    in_elements(patch, "multiply", multiply)


@fault("doubles", "kernel: k", "gelu", "models.py:")
def a_function_of_float64_is_that_of_float32(patch: Patch) -> None:
    def gelu(x: Any, **attrs: Any) -> Any:
        return REGISTRY["gelu"].ref(x.astype(np.float32), **attrs).astype(np.float64)

    in_elements(patch, "gelu", gelu)


@fault("half_precision", "kernel: k", "layernorm", "models.py:")
def a_norm_of_bfloat16_is_an_eighth_too_large(patch: Patch) -> None:
    in_elements(patch, "rsqrt", lambda x: 1.125 / np.sqrt(x))


# ---------------------------------------------------------------------------------------- frontend
@fault("torch_two", "frontend: output 0 of the graph is not what the model returns", "models.py:")
def two_results_are_swapped(patch: Patch) -> None:
    spelled(patch, "aten::tanh", lambda was, x: x.apply("sigmoid"))
    spelled(patch, "aten::sigmoid", lambda was, x: x.apply("tanh"))


@fault("torch_whole", "frontend: ", "aten.pad", "models.py:")
def a_row_is_padded_on_the_wrong_side(patch: Patch) -> None:
    for name in ("aten::pad", "aten::constant_pad_nd"):
        spelled(patch, name, lambda was, x, pad, *more: was(x, [pad[1], pad[0]], *more))


@fault("torch_any_batch", "frontend: ", "aten.layer_norm", "models.py:")
def an_epsilon_is_a_tenth(patch: Patch) -> None:
    spelled(patch, "aten::layer_norm", lambda was, x, shape, w, b, *r: was(x, shape, w, b, 1e-6))


# Complex values are two parts in a graph, so what is compared first is the next real one.
@fault("torch_spectrum", "frontend: ", "aten.fft_irfft", "models.py:")
def a_conjugate_is_the_number_itself(patch: Patch) -> None:
    spelled(patch, "aten::_conj", lambda was, x: x)


@fault("torch_step", "frontend: after step 2 ", "momentum_buffer", "PyTorch (SGD)", "optimizer")
def momentum_is_read_wrongly(patch: Patch) -> None:
    def mul(was: Any, x: Any, y: Any, *more: Any) -> Any:
        return was(x, 0.6 if isinstance(y, float) and y == 0.7 else y, *more)

    spelled(patch, "aten::mul", mul)


@fault("torch_step", "frontend: after step 1 ", "PyTorch (SGD)", "optimizer")
def weight_decay_is_not_read(patch: Patch) -> None:
    def add(was: Any, x: Any, y: Any, alpha: Any = 1, **more: Any) -> Any:
        return was(x, y, alpha=0 if alpha == 0.01 else alpha, **more)

    spelled(patch, "aten::add", add)


# ------------------------------------------------------------------------------------------ memory
@fault("spread", "memory: a kernel reads outside of an input", "kernel: k0_", command=NATIVE)
def a_kernel_reads_one_element_too_many(patch: Patch) -> None:
    in_text(patch, "tanh", "= acc1_;", "= acc1_ + 0.0f * x0[32];")


@fault("spread", "memory: a kernel writes outside of an output", "kernel: k0_", command=NATIVE)
def a_kernel_writes_one_element_too_many(patch: Patch) -> None:
    # Memory for 4 floats has room for 6: nothing else is spoiled.
    in_text(patch, "tanh", "y0[i0_] = acc1_;", "y0[i0_] = acc1_; y0[4] = 0.0f;")


# ------------------------------------------------------------------------------------ what is told
@fault("torch_block", "origin: line ", "is no code of forward", "models.py:")
def lines_are_off_by_one(patch: Patch) -> None:
    from glasshouse.frontend.torch import source

    was = source.frames_in
    patch.setattr(
        source, "frames_in", lambda trace: [replace(f, line=f.line + 1) for f in was(trace)]
    )


@fault("torch_block", "origin: what a rewrite made", "pass: ", "rule: ", "models.py:")
def what_is_made_keeps_an_old_origin(patch: Patch) -> None:
    was, first = rewriter.made_from, []

    def made_from(nodes: Any, *more: Any) -> Any:
        first.extend(list(nodes)[:1])
        return was(first[:1], *more)

    patch.setattr(rewriter, "made_from", made_from)


@fault(
    "large_and_small", "Alarms", "time: ", "the time is not its own",
    command=("explain", "{}", "--runs", "20"),
)  # fmt: skip
def times_are_written_one_kernel_too_far(patch: Patch) -> None:
    in_dispatcher(patch, "times[step] +=", "times[step ? 0 : 1] +=")
