"""Decides what lowering must know of a target: how it spells each elementwise op and each fold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from glasshouse.ir.dtype import DType
from glasshouse.ir.graph import Node

if TYPE_CHECKING:
    from glasshouse.lower.writer import KernelWriter

Anchor = Callable[["KernelWriter", Node], None]
"""Writes an op that has code of its own, with its operands in memory and what follows inlined."""

Spelling = Callable[[Node, list[str]], str]


@dataclass(frozen=True)
class FoldSpelling:
    """How a reduction is computed."""

    start: Callable[[DType], str]  # the value of an empty fold
    step: Callable[[str, str], str]  # accumulator, element -> accumulator
    lanes: str = ""  # function that folds the lanes of a vector accumulator; "" if there is none
    pragma: str = ""  # what lets the compiler use several scalar accumulators at once


@dataclass(frozen=True)
class Target:
    """`spell` works on elements and on vectors alike, except for what `scalar_only` names."""

    name: str
    spell: Mapping[str, Spelling]
    folds: Mapping[str, FoldSpelling]
    anchors: Mapping[str, Anchor]
    scalar_only: frozenset[str] = field(default_factory=frozenset)
    on_masks: frozenset[str] = field(default_factory=frozenset)  # ops that vectors of bools have
