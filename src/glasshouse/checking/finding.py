"""One thing that is wrong with a compiled model, with all the names that lead to it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from glasshouse.ir.graph import Node

KINDS = (
    "frontend", "pass", "kernel", "NaN", "output", "memory", "runtime", "fallback", "drift",
    "random", "origin",
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """What is wrong, and where; a field that says nothing is empty."""

    kind: str  # one of KINDS
    what: str  # in words
    op: str = ""
    where: str = ""  # the user's line and module path
    pass_name: str = ""
    rule: str = ""
    kernel: str = ""
    module: str = ""
    error: float = math.nan
    tolerance: float = math.nan
    inputs: str = ""  # for which inputs it shows
    fails: bool = True  # not for what is only worth knowing

    def __str__(self) -> str:
        names = [
            (self.pass_name, "pass"), (self.rule, "rule"), (self.kernel, "kernel"),
            (self.module, "module"), (self.op, "op"), (self.where, "at"), (self.inputs, "inputs"),
        ]  # fmt: skip
        told = "".join(f"\n    {title}: {text}" for text, title in names if text)
        size = ""
        if not math.isnan(self.error):
            size = f"\n    error: {self.error:.2g}"
            size += f", allowed {self.tolerance:.2g}" if not math.isnan(self.tolerance) else ""
        return f"{self.kind}: {self.what}{told}{size}"

    def on(self, inputs: str) -> Finding:
        """The same, for these inputs."""
        return replace(self, inputs=inputs)

    @property
    def culprit(self) -> tuple[str, ...]:
        """Equal for what is the same fault, whatever inputs show it."""
        return (self.kind, self.pass_name, self.rule, self.kernel, self.module, self.op, self.where)

    def to_json(self) -> dict[str, Any]:
        """For scripts: figures that were not measured are null, an infinite one is "inf"."""
        out = asdict(self)
        for key in ("error", "tolerance"):
            value = out[key]
            out[key] = None if math.isnan(value) else "inf" if math.isinf(value) else value
        return out


def place(node: Node) -> str:
    """The user's line and module of a node."""
    return str(node.origin.source)
