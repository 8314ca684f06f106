"""The rules, one file a theme; importing this package registers them in the order of trying."""

from glasshouse.passes.subgraph_rewrite.rules import (
    activation,
    algebra,
    attention,
    broadcast,
    cast,
    contraction,
    conv_bn,
    fourier,
    gathered_parts,
    linear_scale,
    norm,
    quant,
    reshape_permute,
    rows_at_places,
    softmax,
    split_concat,
    tiny_products,
    unrolled,
    whole_products,
)

__all__ = [
    "activation", "algebra", "attention", "broadcast", "cast", "contraction",
    "conv_bn", "fourier", "gathered_parts", "linear_scale", "norm", "quant",
    "reshape_permute", "rows_at_places", "softmax", "split_concat", "tiny_products",
    "unrolled", "whole_products",
]  # fmt: skip
