"""Sets of models on local processes: workers and drivers are killed, and nothing is lost."""

import json
import os
import random
import signal
import subprocess
import sys
import threading

import pytest

import glasshouse as gh
from glasshouse.distributed.local import LocalWorkers

pytestmark = pytest.mark.slow
MODELS = """
import numpy as np
from glasshouse import nn

def made(width):
    return nn.Sequential(nn.Linear(4, width), nn.Tanh()), (np.ones((2, 4), np.float32),)

def a(): return made(3)
def b(): return made(5)
def c(): return made(7)
def d(): return made(9)
"""


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "models.py"
    path.write_text(MODELS)
    return [f"{path}:{name}" for name in "abcd"]


def results(folder):
    """What is in the notes of a cache: files by their names, which are hashes, and counts."""
    found = [json.loads(p.read_text()) for p in sorted(folder.rglob("task-*.json"))]
    return [{k: v for k, v in note.items() if k != "processor_seconds"} for note in found]


def test_workers_killed_at_ten_random_moments_change_no_result(names, tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path / "calm"))
    gh.distributed.compile(names, jobs=2)
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path / "killed"))
    dice, killed, workers, over = random.Random(7), [], [], threading.Event()
    start = LocalWorkers._start

    def started(self):
        workers.append(start(self))
        return workers[-1]

    monkeypatch.setattr(LocalWorkers, "_start", started)

    def kill():
        while len(killed) < 10 and not over.wait(dice.uniform(0.05, 1.0)):
            alive = [w for w in workers if w.poll() is None]
            if alive:
                killed.append(dice.choice(alive))
                killed[-1].send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    done = []
    while len(killed) < 10:  # a fast machine is done before: it does all of it again
        for note in (tmp_path / "killed").rglob("task-*.json"):
            note.unlink()
        done = gh.distributed.compile(names, jobs=2, tries=30)
    over.set()
    killer.join()
    assert [r.error for r in done] == [""] * 4
    assert results(tmp_path / "killed") == results(tmp_path / "calm")


DRIVER = """
import os, signal, sys
from pathlib import Path
import glasshouse as gh

log = Path(sys.argv[1])

def die(done, total, name):
    seen = log.read_text() if log.exists() else ""
    if f"{name}\\n" not in seen:
        log.write_text(f"{seen}{name}\\n")
        os.kill(os.getpid(), signal.SIGKILL)

gh.distributed.compile(sys.argv[2:], jobs=1, progress=die)
"""


def test_a_driver_that_is_killed_after_every_task_goes_on_where_it_was(names, tmp_path):
    environment = {**os.environ, "GLASSHOUSE_CACHE": str(tmp_path / "cache")}
    log, ends = tmp_path / "log", []
    while not ends or ends[-1]:
        command = [sys.executable, "-c", DRIVER, log, *names[:2]]
        ends.append(subprocess.run(command, env=environment, check=False).returncode)
        assert ends[-1] in (0, -signal.SIGKILL)
    done = log.read_text().splitlines()
    assert len(ends) - 1 == len(done) == len(set(done)) == 4  # a plan and a build of each
