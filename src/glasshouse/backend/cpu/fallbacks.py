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
        "cond": "its branches are graphs of their own",
        "while_loop": "its body is a graph of its own",
        "scan": "its body is a graph of its own",
    },
)
