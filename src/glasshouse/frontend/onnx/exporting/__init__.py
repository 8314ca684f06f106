"""The spellings of core ops in ONNX's, one file a family."""

from __future__ import annotations

from importlib import import_module

FAMILIES = ("control", "elementwise", "index", "layers", "reduce", "shape")


def load() -> None:
    """Fill the table of spellings."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
