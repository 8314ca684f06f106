"""Decides which ops run through Python on purpose, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glasshouse.ir.graph import Node


@dataclass(frozen=True)
class Fallbacks:
    """Ops without a kernel, each with the reason."""

    reasons: Mapping[str, str]

    def covers(self, node: Node) -> bool:
        """Whether a node is meant to run through Python."""
        return node.op.name in self.reasons


FALLBACKS = Fallbacks(
    {
        "opaque": "its meaning is known only to whoever brought it",
        "cond": "Python chooses between its branches, which are compiled",
        "while_loop": "Python goes round; its test and its body are compiled",
        "scan": "Python goes round; its body is compiled",
    },
)
