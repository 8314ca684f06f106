"""What a compiled model should not have, whatever its numbers are: ops that fall back to Python."""

from __future__ import annotations

from collections import Counter

from glasshouse.checking.finding import Finding, place
from glasshouse.lower.program import Fallback
from glasshouse.runtime.module import Module


def alarms(module: Module) -> list[Finding]:
    """Fallbacks, by op and reason."""
    slow = [s for s in module.program.steps if isinstance(s, Fallback)]
    counts = Counter((s.node.op.name, s.why) for s in slow)
    first = {(s.node.op.name, s.why): s.node for s in reversed(slow)}
    return [
        Finding(
            "fallback", f"{count} x {op} runs through Python: {why}", op, place(first[op, why]),
            fails=False,
        )
        for (op, why), count in counts.items()
    ]  # fmt: skip
