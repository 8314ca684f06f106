"""Many calls, forks and models in one process, no memory, no room on the disk: nothing is lost."""

from __future__ import annotations

import builtins
import gc
import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from fuzz.process_stress import count_of, counter, in_child, squares, weights_of, with_weights
from glasshouse import nn
from glasshouse.errors import FormatError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
slow = pytest.mark.slow


@pytest.mark.parametrize("calls, forks", [(400, 4), pytest.param(2000, 40, marks=slow)])
def test_calls_from_eight_threads_with_forks_in_between(calls: int, forks: int) -> None:
    threads = 8
    module, steps = squares(2, runtimes=3), counter()
    wrong: list[object] = []

    def work() -> None:
        try:
            for _ in range(calls // threads):
                assert weights_of(module) == 2
                count_of(steps)
        except BaseException as error:
            wrong.append(error)

    def check() -> None:
        assert weights_of(module) == 2
        before = count_of(steps)
        assert count_of(steps) == before + 1

    callers = [threading.Thread(target=work) for _ in range(threads)]
    for caller in callers:
        caller.start()
    for _ in range(forks):
        in_child(check)
    for caller in callers:
        caller.join()
    assert not wrong
    assert count_of(steps) == calls // threads * threads  # no step was lost, none of a child's came


def held() -> tuple[int, int, int, int]:
    """Threads, open files, mappings, and kilobytes of memory."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    numbers = {k: int(v) for k, v in re.findall(r"(Threads|VmRSS):\s*(\d+)", status)}
    maps = Path("/proc/self/maps").read_text().count("\n")
    return numbers["Threads"], len(os.listdir("/proc/self/fd")), maps, numbers["VmRSS"]


@pytest.mark.parametrize("sizes, rounds", [(3, 10), pytest.param(20, 11, marks=slow)])
def test_compiled_models_leave_nothing_behind(sizes: int, rounds: int) -> None:
    """The slow one compiles 220 models; libraries that were loaded stay so, each once."""

    def compile_all() -> None:
        for size in range(sizes):
            x = np.ones((2, 8 + size), np.float32)
            gh.compile(nn.Sequential(nn.Linear(8 + size, 4), nn.ReLU()), x)(x)

    compile_all()
    before = held()
    for _ in range(rounds - 1):
        compile_all()
    after = held()
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 20
    assert after[3] - before[3] < 8 << 10


STARVED = """
import resource, sys
import numpy as np, glasshouse as gh
from glasshouse.ir import GraphBuilder, symbol
builder = GraphBuilder()
x = builder.input("float32", [symbol("n", 1), 1024])
module = gh.compile(builder.finish((x * 2.0).apply("softmax", axis=0)))
small = np.ones((3, 1024), np.float32)
expected = module(small)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
large = np.ones((100_000, 1024), np.float32)  # 400 MB
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2)
for _ in range(3):
    try:
        module(large)
        raise SystemExit("there was memory")
    except MemoryError as error:
        print(error)
    np.testing.assert_array_equal(module(small), expected)
"""


def test_a_call_without_memory_is_an_error_and_the_next_one_works() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARVED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3


class FullDisk:
    """From the given file on that is opened for writing, the disk is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room, self.opened = room, 0
        really = io.open

        def opening(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            if set(mode) & set("wxa"):
                self.opened += 1
                if self.opened > self.room:
                    return really("/dev/full", mode.replace("x", "w"), *more, **named)
            return really(file, mode, *more, **named)

        monkeypatch.setattr(io, "open", opening)
        monkeypatch.setattr(builtins, "open", opening)


@pytest.mark.parametrize("where", [pytest.param("library", marks=slow), "file"])
def test_a_full_disk_loses_nothing_that_was_saved(tmp_path: Path, where: str) -> None:
    module = squares(2)
    folder = module.save(tmp_path / "saved", weights=where)
    module.set_many_constants(with_weights(3))
    room = 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            disk = FullDisk(patch, room)
            try:
                module.save(folder, weights=where)
            except FormatError as error:
                told = str(error)
            else:
                break
        assert re.search("cannot be written .No space left on device", told), told
        assert not list(folder.glob("partial-*"))
        assert weights_of(gh.load(folder)) == 2
        room += 1
    assert room > 5  # library, header, recording, sources, module.json: each failed once
    assert disk.opened == room
    assert weights_of(gh.load(folder)) == 3
