"""`aitemplate.testing`: the target."""

from __future__ import annotations

from typing import Any

import glasshouse as gh
from glasshouse.compat.missing import names_what_is_there


class Target(gh.PassContext):
    """The machine, as a context."""

    def name(self) -> str:
        return self.target.name


def detect_target(**_: Any) -> Target:
    """The target that there is; AITemplate's options for GPUs are not looked at."""
    return Target(target="cpu")


__all__ = ["Target", "detect_target"]
__getattr__ = names_what_is_there("aitemplate.testing", __all__)
