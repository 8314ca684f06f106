"""Kernels that are compiled at the same time are compiled by processes: the threads of one process
wait for each other inside of NVRTC (sixteen of them were twice as fast as one).

The first of several is compiled here; each further one by a worker that waits idle, or by a new
one. When nothing is left to compile the workers end, so none outlives the work that it was for.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from glasshouse.backend.cuda import nvrtc_worker
from glasshouse.forking import ForkLock


class _Compilers(ForkLock):
    """How many kernels are being compiled, and the workers that wait for the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.running = 0
        self.idle: list[subprocess.Popen[bytes]] = []

    def after_fork_in_child(self) -> None:
        super().after_fork_in_child()
        self.running = 0
        self.idle = []  # the parent's

    def begin(self) -> tuple[bool, subprocess.Popen[bytes] | None]:
        """Whether nothing else is compiled, and an idle worker where something is."""
        with self.lock:
            self.running += 1
            alone = self.running == 1
            return alone, self.idle.pop() if self.idle and not alone else None

    def end(self, worker: subprocess.Popen[bytes] | None) -> None:
        """The worker waits for the next kernel, or all end where nothing is left."""
        with self.lock:
            self.running = max(self.running - 1, 0)
            if worker is not None:
                self.idle.append(worker)
            ending: list[subprocess.Popen[bytes]] = []
            if self.running == 0:
                ending, self.idle = self.idle, ending
        for process in ending:
            process.kill()
        for process in ending:  # each takes some ms to give its memory back, beside the others
            process.communicate()


_compilers = _Compilers()


def build(library: ctypes.CDLL, text: str, name: str, options: Sequence[str]) -> tuple[bool, bytes]:
    """As `nvrtc_worker.build`; beside others of this process in a process of its own."""
    alone, worker = _compilers.begin()
    try:
        if alone:
            return nvrtc_worker.build(library, text, name, options)
        worker = worker or _started(library)
        answer = _asked(worker, json.dumps([text, name, list(options)]).encode())
        if answer is None:  # none could be started, or it was ended from outside
            worker = None
            return nvrtc_worker.build(library, text, name, options)
        return bool(answer[0]), answer[1:]
    finally:
        _compilers.end(worker)


def _started(library: ctypes.CDLL) -> subprocess.Popen[bytes] | None:
    script = str(Path(nvrtc_worker.__file__))
    line = [sys.executable, "-I", "-S", script, library._name]
    try:
        return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError:
        return None


def _asked(worker: subprocess.Popen[bytes] | None, message: bytes) -> bytes | None:
    if worker is None or worker.stdin is None or worker.stdout is None:
        return None
    try:
        nvrtc_worker.send(worker.stdin, message)
        answer = nvrtc_worker.receive(worker.stdout)
    except OSError:
        answer = None
    if not answer:
        worker.kill()
        worker.communicate()
        return None
    return answer
