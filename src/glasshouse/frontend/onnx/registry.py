"""How an ONNX op finds its spelling in core ops: by name, one function each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.frontend.onnx.call import OnnxCall

Spelling = Callable[[OnnxCall], Any]
TABLE: dict[str, Spelling] = {}
# Domains whose ops of the same name mean the same as ONNX's own.
OWN_DOMAINS = ("", "ai.onnx")


def spell(*names: str) -> Callable[[Spelling], Spelling]:
    """Register the spelling of ops: it takes the call and gives a handle, an item, or a tuple."""

    def register(spelling: Spelling) -> Spelling:
        for name in names:
            assert name not in TABLE, name
            TABLE[name] = spelling
        return spelling

    return register


def core(**names: str) -> None:
    """Ops that are one core op of the same operands: `core(Relu="relu")`."""
    for name, op in names.items():
        spell(name)(_one(op))


def _one(op: str) -> Spelling:
    return lambda c: c[0].apply(op, *[c[i] for i in range(1, len(c))])


def find(domain: str, name: str) -> Spelling | None:
    return TABLE.get(name if domain in OWN_DOMAINS else f"{domain}.{name}")
