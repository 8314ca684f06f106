"""How the compiler is started: so that a fork of this process at the same time holds nobody up.

A child that is forked while another thread has made the compiler's pipes but not yet closed its
ends inherits them, and whoever waits for the compiler's output waits for that child to end.
"""

from __future__ import annotations

import os
import subprocess

from glasshouse.errors import BuildError
from glasshouse.forking import ForkLock

_PATIENCE = 10.0  # seconds; starting a program takes milliseconds


class _Starting(ForkLock):
    """Held while a program is being started, and during a fork."""

    _forking = False

    def before_fork(self) -> None:
        self._forking = self.lock.acquire(timeout=_PATIENCE)

    def after_fork_in_parent(self) -> None:
        if self._forking:
            self._forking = False
            self.lock.release()


_starting = _Starting()


def compilers_at_once() -> int:
    """How many compilers a build runs at a time: GLASSHOUSE_BUILD_JOBS, or one for each processor.

    Where several builds run on a machine, each has a share of its processors and memory.
    """
    named = os.environ.get("GLASSHOUSE_BUILD_JOBS") or "0"
    if not named.isdecimal():
        raise BuildError(
            f"GLASSHOUSE_BUILD_JOBS is {named!r}, and must be a number of compilers",
            hint="GLASSHOUSE_BUILD_JOBS=4; 0, or none, for one on each processor",
        )
    return int(named) or os.cpu_count() or 1


def run_program(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Like `subprocess.run` that captures text."""
    with _starting.lock:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    with process:
        try:
            out, err = process.communicate()
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)
