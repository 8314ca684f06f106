"""Faults in the C++ that runs: the text of a rendered kernel, or of the dispatcher, is changed.

One hook does it: `render` as `emit` calls it. A kernel's symbol and its key in the cache are made
of its text, so a spoiled kernel is never found where a good one is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults.fault import NATIVE, Plant, fault
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


TEXTS: dict[str, tuple[str, tuple[str, ...], str, str, str]] = {
    "a_literal_is_off_by_a_ten_thousandth": (
        "spread", ("kernel: k0_", "error: ", "models.py:"),
        "tanh", "vf(-0.5f)", "vf(-0.5001f)",
    ),
    "a_sum_begins_at_a_thousandth": (
        "spread", ("kernel: k0_",),
        "tanh", "acc1_v(0.0f)", "acc1_v(0.001f)",
    ),
    "a_loop_ends_one_row_early": (
        "spread", ("kernel: k0_",),
        "tanh", "i0_ < 4;", "i0_ < 3;",
    ),
    "a_maximum_of_negative_numbers_begins_at_zero": (
        "largest", ("kernel: k0_add_max",),
        "max", "acc1_v(-__builtin_inff())", "acc1_v(0.0f)",
    ),
    "a_softmax_is_shifted_only_in_its_sum": (
        "soft", ("kernel: k0_softmax",),
        "softmax", "gh::load(row1 + i1_, t)", "gh::exp(gh::load(x0 + i0_ * 8 + i1_, t))",
    ),
    "a_norm_reads_one_weight_for_all_columns": (
        "layer_norm", ("kernel: k0_layernorm_add",),
        "layernorm", "gh::load(x1 + i1_, t)", "gh::vf(x1[0])",
    ),
    "a_norm_leaves_out_its_epsilon": (
        "layer_norm", ("kernel: k0_layernorm_add",),
        "layernorm", "gh::add(t14_, t15_)", "t14_",
    ),
    "a_product_stops_one_term_early": (
        "linear", ("kernel: k0_matmul_add_tanh",),
        "tanh", "4, 8, 32, gh::RowsA", "4, 8, 31, gh::RowsA",
    ),
    "a_bias_is_read_by_row": (
        "linear", ("kernel: k1_matmul_add",),
        "k1_", "gh::load(x2 + n, t)", "gh::vf(x2[m])",
    ),
    "an_epilogue_is_left_out": (
        "linear", ("kernel: k0_matmul_add_tanh",),
        "tanh", "gh::tanh(t2_)", "t2_",
    ),
    "an_epilogue_is_applied_twice": (
        "linear", ("kernel: k0_matmul_add_tanh",),
        "tanh", "gh::tanh(t2_)", "gh::tanh(gh::tanh(t2_))",
    ),
    "an_image_is_copied_in_another_order": (
        "conv", ("kernel: k0_conv_add_relu",),
        "conv", "copy0[i3_ * 3 + i1_]", "copy0[i1_ * 36 + i3_]",
    ),
    "scores_are_scaled_by_half": (
        "attention", ("kernel: k0_attention",),
        "attention", "0.17677669529663687f", "0.08838834764831843f",
    ),
    "a_head_is_read_twice": (
        "attention", ("kernel: k0_attention",),
        "attention", "gh::Strided<float>{x1 + 0, 0, 32, 8}", "gh::Strided<float>{x1 + 0, 0, 0, 8}",
    ),
    "a_part_of_a_join_is_written_one_column_early": (
        "joined", ("kernel: k0_concat_tanh",),
        "concat", "i0_ * 8 + i1_ + 4", "i0_ * 8 + i1_ + 3",
    ),
    "a_slice_begins_a_row_early": (
        "slices", ("kernel: k0_", "models.py:"),
        "slice", "i1_ + 10, t", "i1_ + 5, t",
    ),
    "a_row_is_read_where_its_neighbour_lies": (
        "means", ("kernel: k1_add",),
        "k1_", "x0[i0_]", "x0[i0_ ? i0_ - 1 : 0]",
    ),
    "rounding_goes_down_from_three_quarters": (
        "rounded", ("kernel: k0_multiply_round",),
        "round", "gh::rint(t3_)", "gh::rint(gh::sub(t3_, gh::vf(0.25f)))",
    ),
    "an_index_is_cut_to_eight_bits": (
        "looked_up", ("kernel: k0_take", "error: "),
        "take", "t1_ = x1[i1_]", "t1_ = (uint8_t)x1[i1_]",
    ),
}  # fmt: skip
"""By name: the model, what must be said, a word of the kernel's name, text of its code, and what is
put there instead."""


def _in_text(word: str, old: str, new: str) -> Plant:
    return lambda patch: in_text(patch, word, old, new)


for _name, (_model, _says, *_change) in TEXTS.items():
    _plant = _in_text(*_change)
    _plant.__name__ = _name
    fault(_model, *_says, command=NATIVE)(_plant)


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
