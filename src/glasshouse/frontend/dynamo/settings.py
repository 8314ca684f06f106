"""Settings of Dynamo that hold while it captures a function for us, and for nobody else.

Its other backends keep what its user has set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any

from torch._dynamo import config

from glasshouse.frontend.dynamo.hooks import around_captures


def set_while_captured(
    backend: Callable[..., Any],
    setting: str,
    wanted: Callable[[CodeType | None, Mapping[str, Any]], bool],
) -> None:
    """Switch a setting on whenever this backend's graph is captured from code that is `wanted`,
    called with these arguments."""
    before: list[Any] = []  # one of each capture that began and did not end: they may be nested

    def begin(_: Any) -> None:
        before.append(getattr(config, setting))
        found, code, arguments = _captured_for(sys._getframe(1))
        if found is backend and wanted(code, arguments):
            setattr(config, setting, True)

    def end(_: Any) -> None:
        if before:
            setattr(config, setting, before.pop())

    around_captures(begin, end)


def _captured_for(frame: FrameType | None) -> tuple[Any, CodeType | None, Mapping[str, Any]]:
    """The backend whose graph is being captured, the code that it is captured from, and variables
    of that by name."""
    while frame is not None:
        if frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals:
            found = frame.f_locals["compiler_fn"]
            while hasattr(found, "compiler_fn"):  # wrapped by `torch.compile`, and for its repros
                found = found.compiler_fn
            return found, frame.f_locals.get("code"), frame.f_locals.get("locals") or {}
        frame = frame.f_back
    return None, None, {}
