"""Tasks on processes of this machine; one that dies is replaced."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from contextlib import suppress
from typing import Any

from glasshouse.distributed.schedule import WorkerNode
from glasshouse.distributed.task import Task, hardware


class LocalWorkers:
    """As many processes as there are jobs, started when there is work for them."""

    def __init__(self, jobs: int | None = None) -> None:
        processors = os.cpu_count() or 1
        self._jobs = jobs or max(1, processors // 2)
        compilers = str(max(1, processors // self._jobs))  # for each of the jobs
        self._environment = {"GLASSHOUSE_BUILD_JOBS": compilers, **os.environ}
        self._idle: list[subprocess.Popen[str]] = []
        self._busy: dict[Task, subprocess.Popen[str]] = {}
        self._ready = selectors.DefaultSelector()

    def nodes(self) -> list[WorkerNode]:
        """This machine."""
        return [WorkerNode("this machine", hardware(), self._jobs)]

    def submit(self, task: Task, node: WorkerNode) -> None:
        """Let an idle process do it."""
        worker = self._idle.pop() if self._idle else self._start()
        self._busy[task] = worker
        assert worker.stdin is not None
        with suppress(BrokenPipeError):  # it died meanwhile: `wait` sees that its output ended
            worker.stdin.write(task.to_json() + "\n")
            worker.stdin.flush()
        assert worker.stdout is not None
        self._ready.register(worker.stdout, selectors.EVENT_READ, task)

    def wait(self) -> list[tuple[Task, dict[str, Any] | None]]:
        """Answers of tasks that ended; None for one whose process died."""
        out: list[tuple[Task, dict[str, Any] | None]] = []
        for key, _ in self._ready.select():
            task: Task = key.data
            worker = self._busy.pop(task)
            self._ready.unregister(key.fileobj)
            assert worker.stdout is not None
            line = worker.stdout.readline()
            if line.endswith("\n"):
                self._idle.append(worker)
                out.append((task, json.loads(line)))
            else:
                _end(worker)
                out.append((task, None))
        return out

    def changes(self) -> tuple[list[WorkerNode], list[str]]:
        """Machines that came and went: none."""
        return [], []

    def close(self) -> None:
        """End all processes; a task that is not done is given up."""
        for worker in (*self._idle, *self._busy.values()):
            _end(worker)
        self._idle.clear()
        self._busy.clear()
        self._ready.close()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "glasshouse.distributed.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._environment,
        )  # fmt: skip


def _end(worker: subprocess.Popen[str]) -> None:
    worker.kill()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # an unwritten task for a process that is gone
                pipe.close()
    worker.wait()
