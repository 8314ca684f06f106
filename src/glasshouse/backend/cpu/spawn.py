"""How the compiler is started: so that a fork of this process at the same time holds nobody up.

A child that is forked while another thread has made the compiler's pipes but not yet closed its
ends inherits them, and whoever waits for the compiler's output waits for that child to end.
"""

from __future__ import annotations

import subprocess

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
