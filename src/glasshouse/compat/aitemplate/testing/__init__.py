"""`aitemplate.testing`: the target."""

from __future__ import annotations

import sys
from typing import Any

import glasshouse as gh
from glasshouse.compat.missing import names_what_is_there


class Target(gh.PassContext):
    """The machine, as a context."""

    def name(self) -> str:
        return self.target.name


def detect_target(**_: Any) -> Target:
    """The GPU where there is one that kernels can be built for, else the CPU; AITemplate's options
    for GPUs are not looked at."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return Target(target="cpu")
    return Target(target="cuda")


__all__ = ["Target", "detect_target"]
__getattr__ = names_what_is_there("aitemplate.testing", __all__)
