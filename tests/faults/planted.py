"""The faults: what is wrong, on which model it shows, which command finds it, what it must say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from faults.fault import fault
from glasshouse.backend.interp import backend as interp
from glasshouse.backend.interp import kernel as interp_kernel
from glasshouse.ir.graph import Node
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower import access, expand, expand_norms
from glasshouse.passes import arena, mark_views, plan_memory
from glasshouse.passes import fold_constant as folding
from glasshouse.passes.subgraph_rewrite import RULES, duplicates
from glasshouse.passes.subgraph_rewrite.rule import Match

Patch = pytest.MonkeyPatch


# ------------------------------------------------------------------------------------------ passes
def twisted(patch: Patch, rule: str, change: Callable[[Any, Node, Rewriter], Any]) -> None:
    """Let a rule build something else: `change` gets what it would have built."""
    was = RULES[rule]

    def find(node: Node, rw: Rewriter) -> Match | None:
        match = was.find(node, rw)
        if match is None:
            return None

        def new() -> Any:
            made = match.new() if callable(match.new) else rw.expr(match.new)
            return change(made, node, rw)

        return replace(match, new=new)

    patch.setitem(RULES, rule, replace(was, find=find))


def with_attrs(patch: Patch, rule: str, **attrs: Any) -> None:
    """Let a rule give the op that it makes other attributes."""

    def change(made: Any, node: Node, rw: Rewriter) -> Any:
        one = made.value.node
        again = one.op.emit(rw, [rw.expr(v) for v in one.inputs], {**one.attrs, **attrs})
        return rw.expr(again.output)

    twisted(patch, rule, change)


RULE = "rule: {}".format


@fault("spread", "pass: subgraph_rewrite", RULE("subtract-constant"), "op: subtract", "models.py:")
def a_constant_is_added_instead_of_subtracted(patch: Patch) -> None:
    twisted(
        patch,
        "subtract-constant",
        lambda made, node, rw: rw.expr(node.inputs[0]) + rw.expr(node.inputs[1]),
    )


@fault("roots", "pass: subgraph_rewrite", RULE("inverse-root"), "models.py:")
def a_rule_drops_a_broadcast(patch: Patch) -> None:
    """What stands for a whole array is that of one row."""

    def change(made: Any, node: Node, rw: Rewriter) -> Any:
        return made.apply("max", axes=(0,), keepdims=True) + made * 0.0

    twisted(patch, "inverse-root", change)


@fault("spread", "pass: subgraph_rewrite", RULE("divide-constant"), "op: divide")
def a_quotient_becomes_a_product_with_the_divisor(patch: Patch) -> None:
    twisted(
        patch,
        "divide-constant",
        lambda made, node, rw: rw.expr(node.inputs[0]) * rw.expr(node.inputs[1]),
    )


@fault("gelu", RULE("recognise-gelu"), "models.py:")
def gelu_is_taken_for_its_tanh_form(patch: Patch) -> None:
    with_attrs(patch, "recognise-gelu", approximate="tanh")


@fault("layer_norm", RULE("recognise-layer-norm"))
def a_layer_norm_loses_its_epsilon(patch: Patch) -> None:
    with_attrs(patch, "recognise-layer-norm", eps=1e-12)


@fault("rms_norm", RULE("recognise-rms-norm"))
def an_rms_norm_gets_another_epsilon(patch: Patch) -> None:
    with_attrs(patch, "recognise-rms-norm", eps=2e-3)


@fault("softmax", RULE("recognise-softmax"), "op: divide")
def a_softmax_is_taken_over_the_wrong_axis(patch: Patch) -> None:
    with_attrs(patch, "recognise-softmax", axis=0)


@fault("slices", RULE("slice-of-slice"))
def a_slice_of_a_slice_forgets_the_first_start(patch: Patch) -> None:
    def change(made: Any, node: Node, rw: Rewriter) -> Any:
        one = made.value.node
        attrs = {**one.attrs, "starts": node.attrs["starts"]}
        size = [e - s for s, e in zip(one.attrs["starts"], one.attrs["ends"], strict=True)]
        attrs["ends"] = tuple(s + n for s, n in zip(node.attrs["starts"], size, strict=True))
        return rw.expr(one.op.emit(rw, [rw.expr(v) for v in one.inputs], attrs).output)

    twisted(patch, "slice-of-slice", change)


@fault("permutes", RULE("permute-of-permute"))
def two_orders_are_composed_the_wrong_way(patch: Patch) -> None:
    with_attrs(patch, "permute-of-permute", axes=(1, 2, 0))


@fault("means", RULE("recognise-mean"))
def a_mean_is_taken_over_another_axis(patch: Patch) -> None:
    def change(made: Any, node: Node, rw: Rewriter) -> Any:
        one = made.value.node
        other = one.op.emit(rw, [rw.expr(v) for v in one.inputs], {**one.attrs, "axes": (0,)})
        return rw.expr(other.output).apply("reshape", shape=node.output.type.shape)

    twisted(patch, "recognise-mean", change)


@fault("clips", RULE("clip-of-clip"), "op: clip")
def two_intervals_become_their_union(patch: Patch) -> None:
    with_attrs(patch, "clip-of-clip", low=-1.0)


@fault("positive", RULE("maximum-to-relu"))
def a_maximum_becomes_an_absolute_value(patch: Patch) -> None:
    twisted(
        patch, "maximum-to-relu", lambda made, node, rw: rw.expr(node.inputs[0]).apply("absolute")
    )


@fault("positive", "pass: subgraph_rewrite", RULE("already-positive"), "op: relu")
def everything_is_taken_for_positive(patch: Patch) -> None:
    was = RULES["already-positive"]
    patch.setitem(
        RULES, "already-positive", replace(was, find=lambda node, rw: Match(node.inputs[0]))
    )


@fault("roots", RULE("inverse-root"))
def an_inverse_root_becomes_a_root(patch: Patch) -> None:
    twisted(
        patch, "inverse-root",
        lambda made, node, rw: rw.expr(made.value.node.inputs[0]).apply("sqrt"),
    )  # fmt: skip


@fault("layer_norm", RULE("norm-weight"))
def a_norm_loses_its_weight(patch: Patch) -> None:
    def change(made: Any, node: Node, rw: Rewriter) -> Any:
        one = made.value.node
        again = one.op.emit(rw, [rw.expr(one.inputs[0])], dict(one.attrs))
        return rw.expr(again.output)

    twisted(patch, "norm-weight", change)


@fault("conv", RULE("conv-batch-norm"), "op: batch_norm", "error: ")
def a_batch_norm_is_folded_a_thousandth_too_large(patch: Patch) -> None:
    twisted(patch, "conv-batch-norm", lambda made, node, rw: made * 1.001)


@fault("attention", RULE("attention-scale"))
def the_scale_of_the_scores_is_lost(patch: Patch) -> None:
    with_attrs(patch, "attention-scale", scale=1.0)


@fault("repeated", "pass: subgraph_rewrite", RULE("duplicate"), "op: sum")
def sums_over_other_axes_are_duplicates(patch: Patch) -> None:
    def key(node: Node) -> Any:
        if not node.inputs:
            return None
        return node.op.name, tuple((v.node.id, v.index) for v in node.inputs), node.output.type

    patch.setattr(duplicates, "_key", key)


@fault("branches", RULE("merge-siblings"))
def merged_products_come_apart_in_the_wrong_order(patch: Patch) -> None:
    siblings = import_module("glasshouse.passes.subgraph_rewrite.merge_siblings")
    was = siblings._built
    patch.setattr(siblings, "_built", lambda *a: list(reversed(was(*a))))


@fault("folded", "pass: fold_constant", RULE("fold"))
def a_constant_is_folded_wrongly(patch: Patch) -> None:
    was = folding.run_node
    patch.setattr(folding, "run_node", lambda node, arrays: [a * 1.01 for a in was(node, arrays)])


# ----------------------------------------------------------------------------------------- kernels
def in_kernels(patch: Patch, word: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Spoil what kernels with a word in their names leave in memory."""
    was = interp.run_kernel

    def run_kernel(kernel: Any, memory: Any, sizes: Any) -> bool:
        bad = was(kernel, memory, sizes)
        if word in kernel.name:
            change(memory)
        return bad

    patch.setattr(interp, "run_kernel", run_kernel)


def in_tiles(patch: Patch, op: str, change: Callable[..., Any]) -> None:
    """Let the interpreter compute an op otherwise than its meaning says."""
    real = dict(interp_kernel.REGISTRY)
    real[op] = replace(REGISTRY[op], ref=change)
    patch.setattr(interp_kernel, "REGISTRY", real)


@fault("spread", "kernel: k0_", "error: ")
def a_kernel_is_off_by_a_ten_thousandth(patch: Patch) -> None:
    def change(memory: dict[str, Any]) -> None:
        memory["y0"][...] *= 1.0001

    in_kernels(patch, "tanh", change)


@fault("spread", "kernel: k0_")
def a_sum_leaves_out_its_last_element(patch: Patch) -> None:
    patch.setitem(
        interp_kernel._FOLDS, "sum",
        lambda x, axes, kind: np.sum(x[..., :-1], axis=axes, keepdims=True, dtype=kind),
    )  # fmt: skip


@fault("largest", "kernel: k0_")
def a_maximum_begins_at_zero(patch: Patch) -> None:
    patch.setitem(
        interp_kernel._FOLDS, "max",
        lambda x, axes, kind: np.max(x, axis=axes, keepdims=True, initial=0),
    )  # fmt: skip


@fault("means", "kernel: k0_")
def a_mean_divides_by_one_too_many(patch: Patch) -> None:
    was = expand_norms._count
    patch.setattr(expand_norms, "_count", lambda *a: was(*a) + 1.0)


@fault("slices", "kernel: k", "models.py:")
def a_slice_begins_one_too_early(patch: Patch) -> None:
    def slice_(node: Node, port: int, index: Any) -> Any:
        source, places = access._slice(node, port, index)
        first = node.attrs["starts"][0]
        return source, (places[0] + (-1 if first else 0), *places[1:])

    patch.setitem(access.ACCESS, "slice", access._moving(slice_))


@fault("moved", "kernel: k0_")
def a_permute_reads_its_operand_as_it_lies(patch: Patch) -> None:
    patch.setitem(
        access.ACCESS, "permute", access._moving(lambda node, port, index: (node.inputs[0], index))
    )


@fault("linear", "kernel: k", "matmul")
def a_product_is_rounded_to_half(patch: Patch) -> None:
    def matmul(x: Any, y: Any, **attrs: Any) -> Any:
        return REGISTRY["matmul"].ref(x, y, **attrs).astype(np.float16).astype(np.float32)

    in_tiles(patch, "matmul", matmul)


@fault("linear", "kernel: k", "matmul")
def a_product_leaves_out_the_last_term(patch: Patch) -> None:
    def matmul(x: Any, y: Any, **attrs: Any) -> Any:
        x = np.array(x)
        x[..., -1] = 0
        return REGISTRY["matmul"].ref(x, y, **attrs)

    in_tiles(patch, "matmul", matmul)


@fault("spread", "elements are not finite", "kernel: k0_")
def a_kernel_writes_nan(patch: Patch) -> None:
    def change(memory: dict[str, Any]) -> None:
        memory["y0"][1] = np.nan

    in_kernels(patch, "tanh", change)


@fault("fused_gelu", "kernel: k0_", "gelu")
def a_kernel_leaves_its_last_element(patch: Patch) -> None:
    def change(memory: dict[str, Any]) -> None:
        memory["y0"][-1] = 0

    in_kernels(patch, "gelu", change)


@fault("conv", "kernel: k", "conv")
def a_convolution_pads_with_ones(patch: Patch) -> None:
    def conv(x: Any, w: Any, *rest: Any, **attrs: Any) -> Any:
        return REGISTRY["conv"].ref(x, w, *rest, **attrs) + 1e-3

    in_tiles(patch, "conv", conv)


@fault("soft", "kernel: k0_softmax")
def a_softmax_is_not_shifted(patch: Patch) -> None:
    def softmax(x: Any, axis: int, **attrs: Any) -> Any:
        up = np.exp(np.asarray(x, np.float32))
        return up / up.sum(axis, keepdims=True)

    if "softmax" in expand.EXPANSIONS:

        def plain(rw: Rewriter, node: Node) -> Any:
            up = rw.expr(node.inputs[0]).apply("exp")
            return up / up.apply("sum", axes=[-1], keepdims=True)

        patch.setitem(expand.EXPANSIONS, "softmax", plain)
    else:
        in_tiles(patch, "softmax", softmax)


@fault("attention", "kernel: k", "attention")
def attention_forgets_its_scale(patch: Patch) -> None:
    def attention(*arrays: Any, **attrs: Any) -> Any:
        return REGISTRY["attention"].ref(*arrays, **{**attrs, "scale": 1.0})

    in_tiles(patch, "attention", attention)


@fault("joined", "kernel: k0_")
def a_join_reads_its_first_part_twice(patch: Patch) -> None:
    was = access._concat

    def concat(node: Node, port: int, index: Any) -> Any:
        twin = type("Twin", (), {})()
        twin.inputs = (node.inputs[0], node.inputs[0])
        twin.attrs, twin.outputs, twin.op = node.attrs, node.outputs, node.op
        twin.output = node.output
        return was(twin, port, index)

    patch.setitem(access.ACCESS, "concat", concat)


# ---------------------------------------------------------------------------------------- frontend
def spelled(patch: Patch, name: str, change: Callable[..., Any]) -> None:
    """Let the frontend spell an ATen op otherwise; `change` gets the right spelling first."""
    import glasshouse.frontend.torch.importer  # noqa: F401  # fills the table
    from glasshouse.frontend.torch.aten.registry import IN_CONTEXT, TABLE

    was = TABLE[name]

    def spelling(*args: Any, **kwargs: Any) -> Any:
        return change(was, *args, **kwargs)

    patch.setitem(TABLE, name, spelling)
    if was in IN_CONTEXT:
        IN_CONTEXT.add(spelling)


@fault("torch_block", "frontend: ", "aten.gelu", "models.py:")
def the_form_of_gelu_is_not_read(patch: Patch) -> None:
    spelled(patch, "aten::gelu", lambda was, x, approximate="none": was(x))


@fault("torch_block", "frontend: ", "aten.leaky_relu")
def the_slope_is_not_read(patch: Patch) -> None:
    spelled(patch, "aten::leaky_relu", lambda was, x, *rest: was(x))


@fault("torch_block", "frontend: ", "aten.elu")
def the_alpha_of_elu_is_not_read(patch: Patch) -> None:
    spelled(patch, "aten::elu", lambda was, x, *rest: was(x))


@fault("torch_block", "frontend: ", "aten.softmax")
def the_axis_of_a_softmax_is_counted_from_the_end(patch: Patch) -> None:
    spelled(patch, "aten::softmax", lambda was, x, dim, *rest: was(x, dim - 1, *rest))


@fault("torch_block", "frontend: ", "module: norm", "aten.layer_norm")
def the_epsilon_of_a_norm_is_not_read(patch: Patch) -> None:
    spelled(
        patch, "aten::layer_norm", lambda was, x, shape, w=None, b=None, *rest: was(x, shape, w, b)
    )


@fault("torch_block", "frontend: ", "module: norm", "aten.layer_norm")
def weight_and_bias_of_a_norm_are_swapped(patch: Patch) -> None:
    spelled(
        patch,
        "aten::layer_norm",
        lambda was, x, shape, w=None, b=None, *rest: was(x, shape, b, w, *rest),
    )


@fault("torch_block", "frontend: ", "aten.sub")
def the_factor_of_a_difference_is_not_read(patch: Patch) -> None:
    name = "aten::sub.Tensor"
    from glasshouse.frontend.torch.aten.registry import TABLE

    name = name if name in TABLE else "aten::sub"
    spelled(patch, name, lambda was, x, y, alpha=1: was(x, y))


@fault("torch_block", "frontend: ", "module: up", "aten.linear")
def a_square_weight_is_not_transposed(patch: Patch) -> None:
    spelled(
        patch, "aten::linear", lambda was, x, w, b=None: was(x, w.apply("permute", axes=(1, 0)), b)
    )


@fault("torch_conv", "frontend: ", "module: 2", "aten.hardtanh")
def the_bounds_of_hardtanh_are_not_read(patch: Patch) -> None:
    spelled(patch, "aten::hardtanh", lambda was, x, *rest: was(x))


@fault("torch_conv", "frontend: ", "module: 1", "aten.batch_norm")
def running_variance_is_off(patch: Patch) -> None:
    def change(was: Any, *args: Any, **kwargs: Any) -> Any:
        args = list(args)
        at = next(i for i, a in enumerate(args) if a == 1e-2)
        args[at] = 1e-5
        return was(*args, **kwargs)

    spelled(patch, "aten::batch_norm", change)


@fault("torch_draws", "random: the mean square of its values", "module: drop", "aten.dropout")
def what_dropout_keeps_is_not_scaled(patch: Patch) -> None:
    spelled(patch, "aten::dropout", lambda was, ctx, x, p, train: was(ctx, x, p, train) * (1 - p))


@fault("torch_draws", "random: ", "module: drop", "aten.dropout")
def dropout_keeps_what_it_should_drop(patch: Patch) -> None:
    spelled(patch, "aten::dropout", lambda was, ctx, x, p, train: was(ctx, x, 1 - p, train))


@fault("torch_draws", "random: ", "aten.randn_like", "models.py:")
def normal_numbers_are_uniform_of_equal_variance(patch: Patch) -> None:
    def uniform(was: Any, ctx: Any, x: Any, *rest: Any, **kwargs: Any) -> Any:
        from glasshouse.frontend.torch.aten.random import _drawn

        return (_drawn(ctx, "uniform", x.shape) - 0.5) * 12**0.5

    spelled(patch, "aten::randn_like", uniform)


@fault("torch_draws", "random: ", "averaged over its last axis", "aten.randn_like")
def each_row_is_drawn_once(patch: Patch) -> None:
    def rows(was: Any, ctx: Any, x: Any, *rest: Any, **kwargs: Any) -> Any:
        from glasshouse.frontend.torch.aten.random import _drawn

        return _drawn(ctx, "normal", (x.shape[0], 1)) + x * 0.0

    spelled(patch, "aten::randn_like", rows)


@fault("torch_draws", "frontend: ", "given the numbers that it draws", "aten.exp", "models.py:")
def behind_a_draw_an_op_is_wrong(patch: Patch) -> None:
    spelled(patch, "aten::exp", lambda was, x: was(x * 1.0001))


# ----------------------------------------------------------------------------------------- planner
@fault("chain", "memory: two live buffers overlap", "pass: plan_memory", "kernel: k")
def all_buffers_lie_at_the_beginning(patch: Patch) -> None:
    def place(buffers: list[arena.ArenaBlock]) -> int:
        for buffer in buffers:
            buffer.offset = 0
        return max((b.size for b in buffers), default=0)

    patch.setattr(plan_memory, "place", place)


@fault("chain", "memory: two live buffers overlap", "pass: plan_memory")
def a_value_dies_one_step_too_early(patch: Patch) -> None:
    was = plan_memory.place

    def place(buffers: list[arena.ArenaBlock]) -> int:
        for buffer in buffers:
            buffer.end = max(buffer.begin, buffer.end - 1)
        return was(buffers)

    patch.setattr(plan_memory, "place", place)


@fault("chain", "memory: two live buffers overlap", "pass: plan_memory")
def sizes_are_counted_too_small(patch: Patch) -> None:
    was = plan_memory.place

    def place(buffers: list[arena.ArenaBlock]) -> int:
        for buffer in buffers:
            buffer.size //= 2
        return was(buffers) * 2

    patch.setattr(plan_memory, "place", place)


# ----------------------------------------------------------------------------------------- runtime
@fault("two_results", "output: ")
def results_come_in_the_wrong_order(patch: Patch) -> None:
    from glasshouse.runtime.module import Module

    was = Module.run_flat
    patch.setattr(Module, "run_flat", lambda self, inputs: tuple(reversed(was(self, inputs))))


@fault("spread", "memory: a call writes its results over those of the call before")
def results_lie_where_the_next_call_writes(patch: Patch) -> None:
    from glasshouse.runtime.module import Module

    was, kept = Module.run_flat, {}

    def run_flat(self: Any, inputs: Any) -> Any:
        made = was(self, inputs)
        for old, new in zip(kept.setdefault(id(self), made), made, strict=True):
            np.copyto(old, new)
        return kept[id(self)]

    patch.setattr(Module, "run_flat", run_flat)


@fault("torch_state", "memory: state is written over by k0", "pass: plan_memory", "models.py:")
def a_variable_is_overwritten_while_it_is_still_read(patch: Patch) -> None:
    from glasshouse.passes.in_place import Timeline

    was = Timeline.can_overwrite

    def can_overwrite(self: Any, old: Any, new: Any) -> bool:
        self.last_read.pop(old, None)
        return was(self, old, new)

    patch.setattr(Timeline, "can_overwrite", can_overwrite)


@fault("spread", "drift: two runs on the same inputs differ")
def a_kernel_gives_something_else_each_time(patch: Patch) -> None:
    runs = [0]

    def change(memory: dict[str, Any]) -> None:
        runs[0] += 1
        memory["y0"][...] *= 1.0 + 3e-7 * (runs[0] % 2)

    in_kernels(patch, "tanh", change)


@fault("linear", "runtime: the whole program gives other values than its steps")
def the_dispatcher_leaves_a_step_out(patch: Patch) -> None:
    was = interp.InterpExecutable.run

    def run(self: Any, table: int, arena: int, sizes: int, begin: int, end: int, times: int) -> int:
        if end - begin > 1:
            end -= 1
        return was(self, table, arena, sizes, begin, end, times)

    patch.setattr(interp.InterpExecutable, "run", run)


@fault("chain", "memory: a kernel reads memory that nothing has written", "kernel: k")
def a_kernel_adds_to_what_is_there(patch: Patch) -> None:
    def run_kernel(kernel: Any, memory: Any, sizes: Any) -> bool:
        before = memory["y0"].copy()
        bad = _run(kernel, memory, sizes)
        with np.errstate(invalid="ignore"):  # what nobody wrote may be infinite
            memory["y0"][...] += before * 0
        return bad

    _run = interp.run_kernel
    patch.setattr(interp, "run_kernel", run_kernel)


@fault("turned", "memory: ", "op: permute", "pass: mark_views", "models.py:")
def a_permute_is_taken_for_a_view(patch: Patch) -> None:
    was = mark_views.view_offset
    patch.setattr(
        mark_views, "view_offset", lambda node: 0 if node.op.name == "permute" else was(node)
    )
