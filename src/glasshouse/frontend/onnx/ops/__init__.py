"""The spellings of ONNX's ops in core ops, one file a family."""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "activation", "arithmetic", "attention", "control", "conv", "create", "grid", "index", "linear",
    "microsoft", "norm", "pieces", "pool", "quant", "recurrent", "reduce", "resize", "sequence",
    "shape",
)  # fmt: skip


def load() -> None:
    """Fill the table of spellings."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
