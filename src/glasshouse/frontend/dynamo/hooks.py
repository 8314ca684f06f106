"""Calls of ours that Dynamo leaves alone, and those when it begins and ends with a function, which
`torch._dynamo.reset()` keeps.

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


def left_alone(function: Any) -> Any:
    """Dynamo does not look into it, nor into what it calls: in a step that is compiled whole it is
    there when gradients are taken. `disable` says the same in 5 us a call."""
    try:
        from torch._C._dynamo.eval_frame import set_code_exec_strategy
        from torch._dynamo.types import FrameAction, FrameExecStrategy
    except ImportError:  # PyTorch before 2.7
        return disable(function)
    strategy = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)
    set_code_exec_strategy(function.__code__, strategy)
    return function
