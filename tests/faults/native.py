"""Faults in the C++ that runs: the text of a rendered kernel, or of the dispatcher, is changed.

One hook does it: `render` as `emit` calls it. A kernel's symbol and its key in the cache are made
of its text, so a spoiled kernel is never found where a good one is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults.fault import NATIVE, fault
from glasshouse.backend.cpu import emit
from glasshouse.backend.cpu.render import KernelFunction

Patch = pytest.MonkeyPatch


def in_text(patch: Patch, word: str, old: str, new: str, count: int = -1) -> None:
    """Replace something in the code of the kernels that have a word in their names."""
    was = emit.render

    def render(kernel: Any, symbols: Any) -> KernelFunction:
        made = was(kernel, symbols)
        if word not in made.name:
            return made
        assert old in made.text, made.text
        return replace(made, text=made.text.replace(old, new, count))

    patch.setattr(emit, "render", render)


def in_dispatcher(patch: Patch, old: str, new: str) -> None:
    """Replace something in the code that calls the kernels."""
    was = emit._main

    def main(*given: Any) -> str:
        text = was(*given)
        assert old in text, text
        return text.replace(old, new)

    patch.setattr(emit, "_main", main)


@fault("spread", "kernel: k0_", "error: ", "models.py:", command=NATIVE)
def a_literal_is_off_by_a_ten_thousandth(patch: Patch) -> None:
    in_text(patch, "tanh", "vf(-0.5f)", "vf(-0.5001f)")


@fault("spread", "kernel: k0_", command=NATIVE)
def a_sum_begins_at_a_thousandth(patch: Patch) -> None:
    in_text(patch, "tanh", "acc1_v(0.0f)", "acc1_v(0.001f)")


@fault("spread", "kernel: k0_", command=NATIVE)
def a_loop_ends_one_row_early(patch: Patch) -> None:
    in_text(patch, "tanh", "i0_ < 4;", "i0_ < 3;")


@fault("largest", "kernel: k0_add_max", command=NATIVE)
def a_maximum_of_negative_numbers_begins_at_zero(patch: Patch) -> None:
    in_text(patch, "max", "acc1_v(-__builtin_inff())", "acc1_v(0.0f)")


@fault("soft", "kernel: k0_softmax", command=NATIVE)
def a_softmax_is_shifted_only_in_its_sum(patch: Patch) -> None:
    in_text(
        patch, "softmax", "const gh::vf t4_ = gh::sub(t1_, gh::vf(acc2_))", "const gh::vf t4_ = t1_"
    )


@fault("layer_norm", "kernel: k0_layernorm_add", command=NATIVE)
def a_norm_reads_one_weight_for_all_columns(patch: Patch) -> None:
    in_text(patch, "layernorm", "gh::load(x1 + i1_, t)", "gh::vf(x1[0])")


@fault("layer_norm", "kernel: k0_layernorm_add", command=NATIVE)
def a_norm_leaves_out_its_epsilon(patch: Patch) -> None:
    in_text(patch, "layernorm", "gh::add(t14_, t15_)", "t14_")


@fault("linear", "kernel: k0_matmul_add_tanh", command=NATIVE)
def a_product_stops_one_term_early(patch: Patch) -> None:
    in_text(patch, "tanh", "4, 8, 32, gh::RowsA", "4, 8, 31, gh::RowsA")


@fault("linear", "kernel: k1_matmul_add", command=NATIVE)
def a_bias_is_read_by_row(patch: Patch) -> None:
    in_text(patch, "k1_", "gh::load(x2 + n, t)", "gh::vf(x2[m])")


@fault("linear", "kernel: k0_matmul_add_tanh", command=NATIVE)
def an_epilogue_is_left_out(patch: Patch) -> None:
    in_text(patch, "tanh", "gh::tanh(t2_)", "t2_")


@fault("linear", "kernel: k0_matmul_add_tanh", command=NATIVE)
def an_epilogue_is_applied_twice(patch: Patch) -> None:
    in_text(patch, "tanh", "gh::tanh(t2_)", "gh::tanh(gh::tanh(t2_))")


@fault("conv", "kernel: k0_conv_add_relu", command=NATIVE)
def an_image_is_copied_in_another_order(patch: Patch) -> None:
    in_text(patch, "conv", "copy0[i3_ * 3 + i1_]", "copy0[i1_ * 36 + i3_]")


@fault("attention", "kernel: k0_attention", command=NATIVE)
def scores_are_scaled_by_half(patch: Patch) -> None:
    in_text(patch, "attention", "0.17677669529663687f", "0.08838834764831843f")


@fault("attention", "kernel: k0_attention", command=NATIVE)
def a_head_is_read_twice(patch: Patch) -> None:
    in_text(
        patch,
        "attention",
        "gh::Strided<float>{x1 + 0, 0, 32, 8}",
        "gh::Strided<float>{x1 + 0, 0, 0, 8}",
    )


@fault("joined", "kernel: k0_concat_tanh", command=NATIVE)
def a_part_of_a_join_is_written_one_column_early(patch: Patch) -> None:
    in_text(patch, "concat", "i0_ * 8 + i1_ + 4", "i0_ * 8 + i1_ + 3")


@fault("slices", "kernel: k0_", "models.py:", command=NATIVE)
def a_slice_begins_a_row_early(patch: Patch) -> None:
    in_text(patch, "slice", "i1_ + 10, t", "i1_ + 5, t")


@fault("means", "kernel: k1_add", command=NATIVE)
def a_row_is_read_where_its_neighbour_lies(patch: Patch) -> None:
    in_text(patch, "k1_", "x0[i0_]", "x0[i0_ ? i0_ - 1 : 0]")


@fault("linear", "runtime: the whole program gives other values than its steps", command=NATIVE)
def a_whole_run_leaves_the_last_step_out(patch: Patch) -> None:
    in_dispatcher(
        patch,
        "for (int step = from; step < to; ++step)",
        "for (int step = from; step < (to - from > 1 ? to - 1 : to); ++step)",
    )


@fault("two_results", "drift: two runs on the same inputs differ", command=NATIVE)
def a_kernel_counts_its_calls(patch: Patch) -> None:
    in_text(patch, "exp", "gh::exp(t1_)", "gh::exp(t1_) * gh::vf(1.0f + 1.2e-7f * (calls_ & 1))")
    in_text(patch, "exp", ") {\n", ") {\n  static int calls_ = 0;\n  ++calls_;\n", 1)


@fault("rounded", "kernel: k0_multiply_round", command=NATIVE)
def rounding_goes_down_from_three_quarters(patch: Patch) -> None:
    in_text(patch, "round", "gh::rint(t3_)", "gh::rint(gh::sub(t3_, gh::vf(0.25f)))")


@fault("looked_up", "kernel: k0_take", "error: ", command=NATIVE)
def an_index_is_cut_to_eight_bits(patch: Patch) -> None:
    in_text(patch, "take", "t1_ = x1[i1_]", "t1_ = (uint8_t)x1[i1_]")
