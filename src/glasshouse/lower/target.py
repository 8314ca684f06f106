"""What the compiler knows of a machine: its figures, and how lowering spells ops for it."""

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
    """One machine, given once and threaded through passes, lowering and recording.

    The figures are rough: enough to compare two ways to compute something. A target made of figures
    alone takes its tables from the backend of its name.
    """

    name: str
    cores: int
    operations: float  # float32 operations a second, all cores
    bandwidth: float  # bytes a second from main memory
    launch: float  # seconds to start one kernel
    low_precision: tuple[str, ...] = ()  # element types in which contractions are faster
    # Spellings work on elements and on vectors alike, except for what `scalar_only` names.
    spell: Mapping[str, Spelling] = field(default_factory=dict, repr=False, compare=False)
    folds: Mapping[str, FoldSpelling] = field(default_factory=dict, repr=False, compare=False)
    anchors: Mapping[str, Anchor] = field(default_factory=dict, repr=False, compare=False)
    scalar_only: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    on_masks: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Ops that vectors of bools have."""
    fallbacks: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Ops that run through Python on purpose, each with the reason."""

    @property
    def operations_per_byte(self) -> float:
        """Operations that take as long as moving one byte."""
        return self.operations / self.bandwidth

    @property
    def launch_bytes(self) -> float:
        """Bytes that move in the time in which a kernel starts."""
        return self.launch * self.bandwidth

    def seconds(self, operations: float, bytes: float, efficiency: float = 1.0) -> float:
        """The roofline: what takes longer, computing or moving; and the launch."""
        return (
            max(operations / (self.operations * efficiency), bytes / self.bandwidth) + self.launch
        )
