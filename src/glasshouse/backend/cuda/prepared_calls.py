"""Calls of the driver and of libraries, prepared once and made again and again on other memory.

What such a call costs the processor is mostly the way to it: 5 us through ctypes, and 40 us for a
convolution of cuDNN, whose pointers go into a descriptor of their own. So a list of calls is laid
out in memory, with the addresses from which arguments are read, and one function of C++ makes them
all (`prepared_calls.cpp`); where there is no compiler, Python does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from glasshouse.backend.cuda.host_build import built_text
from glasshouse.errors import GlasshouseError

MOST = 16
"""Arguments of a function."""
_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class At:
    """An argument that is read when the call is made: the word at an address, plus an offset,
    rounded up to a multiple of `aligned`, a power of two."""

    address: int
    offset: int = 0
    aligned: int = 1

    def read(self) -> int:
        found = ctypes.c_uint64.from_address(self.address).value + self.offset
        return (found + self.aligned - 1) & -self.aligned & _WORD


Argument = int | At


@dataclass(frozen=True)
class PreparedCall:
    """A call of a function that gives a status, and whatever must live as long as it is made."""

    function: Any
    arguments: tuple[Argument, ...]
    refused: Callable[[int], Exception]
    """What a status means that is not 0."""
    keeps: Any = None


@dataclass(frozen=True)
class Put:
    """A word is written to an address: arguments that a call reads from memory."""

    address: int
    word: At
    keeps: Any = None


Step = PreparedCall | Put


class _Word(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_uint64), ("source", ctypes.c_void_p), ("below", ctypes.c_uint64),
    )  # fmt: skip


class _NativeCall(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p),
        ("words", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
    )


@lru_cache(maxsize=1)
def _native() -> Any:
    """The function of C++; None where it cannot be built."""
    text = Path(__file__).with_suffix(".cpp").read_text()
    with suppress(GlasshouseError, OSError, AttributeError):
        made = ctypes.CDLL(str(built_text(text, "prepared_calls"))).gh_make_calls
        made.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        made.restype = ctypes.c_int64
        return made
    return None


class PreparedCalls:
    """Some steps, in order."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = list(steps)
        self._make = _native()
        self._status = ctypes.c_int()
        if self._make is None:
            return
        rows = [self._row(step) for step in self._steps]
        self._words = (_Word * max(sum(map(len, rows)), 1))(*(word for row in rows for word in row))
        self._calls = (_NativeCall * max(len(rows), 1))()
        at = ctypes.addressof(self._words)
        for call, step, row in zip(self._calls, self._steps, rows, strict=False):
            if isinstance(step, PreparedCall):
                call.function = ctypes.cast(step.function, ctypes.c_void_p)
            call.words, call.count = at, len(row)
            at += len(row) * ctypes.sizeof(_Word)
        status = ctypes.addressof(self._status)
        self._given = (ctypes.addressof(self._calls), len(rows), status)

    @staticmethod
    def _row(step: Step) -> list[_Word]:
        given = step.arguments if isinstance(step, PreparedCall) else (step.address, step.word)
        assert len(given) <= MOST, "more arguments than are handed on"
        return [
            _Word(x.offset & _WORD, x.address, x.aligned - 1) if isinstance(x, At)
            else _Word(x & _WORD, None, 0)
            for x in given
        ]  # fmt: skip

    def make(self) -> None:
        """Make all calls; an error at the first one that is refused."""
        if self._make is None:
            make_in_python(self._steps)
            return
        made = self._make(*self._given)
        if made < len(self._steps):
            step = self._steps[made]
            assert isinstance(step, PreparedCall)
            raise step.refused(self._status.value)


def make_in_python(steps: Sequence[Step]) -> None:
    """The same, step by step: for a list that is made once."""
    for step in steps:
        if isinstance(step, Put):
            ctypes.c_uint64.from_address(step.address).value = step.word.read()
            continue
        given = [x.read() if isinstance(x, At) else x for x in step.arguments]
        status = step.function(*given)
        if status:
            raise step.refused(status)
