"""Calls of ours when Dynamo begins and ends with a function; `torch._dynamo.reset()` keeps them.

Dynamo leaves them alone: it calls them with a lock held, and to capture one takes that lock again.
A training step that is compiled whole waited for itself so, since its backward graph is compiled
while Dynamo looks at what is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo import disable
from torch._dynamo.callback import callback_handler

Hook = Callable[[Any], None]


def around_captures(begin: Hook, end: Hook | None = None) -> None:
    """Call `begin` before a function is captured and `end` after it, from now on."""
    forget = callback_handler.clear
    begin, end = disable(begin), None if end is None else disable(end)

    def register() -> None:
        callback_handler.register_start_callback(begin)
        if end is not None:
            callback_handler.register_end_callback(end)

    def clear() -> None:
        forget()
        register()

    callback_handler.clear = clear
    register()
