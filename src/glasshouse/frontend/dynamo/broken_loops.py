"""Graph breaks inside of loops, which Dynamo refuses: what follows a break, the next turns of the
loop among it, is a function that Dynamo makes and looks at like any other.

Dynamo leaves a function to Python where data are read inside of a loop. With the break, one turn
from one reading to the next is one graph, the same for all turns; but each turn is called from
inside of the one before, whose values stay until the loop ends. So after `TURNS` parts in a call,
Python runs what is left of the loop, which needs no further depth.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from torch._dynamo import eval_frame
from torch._dynamo.resume_execution import ContinueExecutionCache
from torch._dynamo.symbolic_convert import InstructionTranslatorBase as Translator
from torch._dynamo.variables.lists import RangeIteratorVariable

TURNS = 64
"""Parts that a call may go through: as many turns' values are held at once, and Python's stack is
deeper by a frame for each."""

_RESUMED = "torch_dynamo_resume_in"
"""How names of functions begin that Dynamo makes of what follows a break."""


Functions = dict[int, CodeType]
"""Functions by the id of their code: what Dynamo writes has constants that have no hash."""


class _Calls(threading.local):
    """What the model that this thread is calling wants."""

    refused: Functions | None = None  # functions that were left for their loops; None: none is
    breaks = False
    parts = 0


_calls = _Calls()
_goes_back: Any = getattr(Translator, "maybe_has_backedge", None)


def _asks(self: Any) -> bool:
    """Whether Dynamo is to leave the function that it looks at because of a loop."""
    if _calls.refused is None:
        return bool(_goes_back(self))
    if not _goes_back(self) or (_calls.breaks and not _counts(self)):
        return False
    while self is not None:  # those that are inlined, and the one they are inlined into
        _calls.refused[id(self.f_code)] = self.f_code
        self = self.parent
    return True


def _counts(translator: Any) -> bool:
    """Whether a loop over a range is going on: Dynamo takes each of its numbers as a constant, so
    that no turn would have the graph of another one."""
    while translator is not None:
        if any(isinstance(value, RangeIteratorVariable) for value in translator.stack):
            return True
        translator = translator.parent
    return False


# Dynamo has no setting for it. Where it has other names for this, loops are left as it leaves them.
if _goes_back is not None and {"reset_code", "skip_code"} <= vars(eval_frame).keys():
    Translator.maybe_has_backedge = _asks


@contextmanager
def loops_broken(refused: Functions, breaks: bool) -> Iterator[None]:
    """Around a call of a model: functions that Dynamo leaves for a loop are put into `refused`, or
    with `breaks` are broken there."""
    before = (_calls.refused, _calls.breaks, _calls.parts)
    _calls.refused, _calls.breaks, _calls.parts = refused, breaks, 0
    try:
        yield
    finally:
        _calls.refused, _calls.breaks, _calls.parts = before


def look_again(refused: Functions) -> None:
    """Have Dynamo look at functions that it has left."""
    for code in refused.values():
        eval_frame.reset_code(code)
    refused.clear()


def is_called_by(functions: Functions) -> bool:
    """Whether one of these functions is running."""
    return any(id(frame.f_code) in functions for frame in _frames())


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def count_part() -> None:
    """One more part of this call. After `TURNS` of them Python runs the loops that go on."""
    _calls.parts += 1
    if not _calls.breaks or _calls.parts != TURNS:
        return
    codes = [frame.f_code for frame in _frames()]
    going_on = {(c.co_filename, c.co_name) for c in codes if c.co_name.startswith(_RESUMED)}
    for made in list(ContinueExecutionCache.cache.values.values()):  # by the id of their function
        for code in made.values():
            if (code.co_filename, code.co_name) in going_on:
                eval_frame.skip_code(code)
