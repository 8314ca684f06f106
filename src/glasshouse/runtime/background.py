"""Work that a thread does beside the program, and whose result is taken when it is there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from glasshouse.forking import ForkLock

T = TypeVar("T")

_ONE = ForkLock()
"""One piece of work at a time: the program itself needs processors too."""

_SWITCH = 2e-4
"""Seconds that Python lets a thread compute while others wait. By default 5 ms, and a program that
runs NumPy's functions waits for it after each: steps beside a compilation took 1.8 s, not 1.4."""


@contextmanager
def _giving_way() -> Iterator[None]:
    """Let the program's threads have their turn sooner."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class BackgroundJob(Generic[T]):
    """Begins at once. A program that ends does not wait for it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._made: T | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(
            target=self._run, args=(work,), name="glasshouse-background", daemon=True
        )
        self._thread.start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            with _ONE.lock, _giving_way():
                self._made = work()
        except Exception as error:
            self._error = error

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    @property
    def is_lost(self) -> bool:
        """Whether there will be no result: the process is the child of one whose thread it was."""
        return self.is_done and self._made is None and self._error is None

    def wait(self) -> None:
        self._thread.join()

    def result(self) -> T:
        """What was made; raises what went wrong. Only of a job that is done, and not lost."""
        if self._error is not None:
            raise self._error
        assert self._made is not None, "a lost job, or one that goes on"
        return self._made
