"""Campaign: forks, threads and kills around calls, compilations, saves and loads.

    python tests/fuzz/process_stress.py fork 17        one case again

Every model here tells which weights computed a result, so that a mixture of two is seen.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import glasshouse as gh
from fuzz.report import Report
from glasshouse.backend.cache_folder import cache_folder
from glasshouse.backend.cpu.threads import set_threads
from glasshouse.errors import ExecutionError, FormatError
from glasshouse.ir import GraphBuilder
from glasshouse.runtime.compiler import compile_graph
from glasshouse.runtime.module import Module

NAME = "process_stress"
HANGS = 120  # seconds after which a child is ended by the system
ROWS, INSIDE, COLUMNS = 32, 64, 128
X = np.ones((ROWS, INSIDE), np.float32)
UNIT = float(INSIDE * COLUMNS)
ONE = np.ones(512, np.float32)


def squares(k: float = 1.0, runtimes: int = 2) -> Module:
    """relu(x @ w) @ w2 with weights that are all k: every element is UNIT * k * k."""
    builder = GraphBuilder()
    x = builder.input("float32", [ROWS, INSIDE])
    w = builder.weight(np.full((INSIDE, COLUMNS), k, np.float32), name="w")
    w2 = builder.weight(np.full((COLUMNS, COLUMNS), k, np.float32), name="w2")
    graph = builder.finish(x.apply("matmul", w).apply("relu").apply("matmul", w2))
    return gh.compile(graph, num_runtimes=runtimes)


def counter() -> Module:
    """Two variables that go up together."""
    builder = GraphBuilder()
    x = builder.input("float32", [512])
    both = [builder.variable(np.zeros(512, np.float32), name=n) for n in ("a", "b")]
    for variable in both:
        builder.update(variable, variable + x)
    return compile_graph(builder.finish(*(v * 1.0 for v in both)))


def weights_of(module: Module) -> int:
    """The k that computed a result, which must be one k all over."""
    made = module(X)
    root = float(np.sqrt(made[0, 0] / UNIT))
    assert np.all(made == made[0, 0]), "rows of one result differ"
    assert root == round(root), f"{made[0, 0]} is a mixture of weights"
    return int(root)


def count_of(module: Module) -> int:
    a, b = module(ONE)
    assert np.all(a == a[0]), "half of a variable"
    assert np.all(b == a[0]), "one variable without the other"
    return int(a[0])


def with_weights(k: int) -> dict[str, Any]:
    shapes = {"w": (INSIDE, COLUMNS), "w2": (COLUMNS, COLUMNS)}
    return {name: np.full(shape, k, np.float32) for name, shape in shapes.items()}


class Together:
    """Threads that work until the end of a `with`; what one raises, the end of it raises."""

    def __init__(self, works: list[Callable[[], Any]]) -> None:
        self._ended = threading.Event()
        self._wrong: list[str] = []
        self._threads = [threading.Thread(target=self._loop, args=(w,)) for w in works]

    def _loop(self, work: Callable[[], Any]) -> None:
        try:
            while not self._ended.is_set():
                work()
        except BaseException:
            self._wrong.append(traceback.format_exc())

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(HANGS)
            assert not thread.is_alive(), "a thread of the parent hangs"
        assert not self._wrong, self._wrong[0]


def in_child(work: Callable[[], Any]) -> None:
    """As a forked child; a hang is ended by an alarm."""
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
            signal.alarm(HANGS)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code != -signal.SIGALRM, "the child hangs"
    assert code == 0, f"the child ended with {code} (its traceback is in the log)"


# ------------------------------------------------------------------------------------------ cases
def fork(rng: random.Random) -> None:
    """Threads call, swap weights, step, compile; children do the same, and fork again."""
    module, steps = squares(2, rng.choice([1, 2, 4])), counter()
    set_threads(rng.choice([1, 2, 3]))

    def swap() -> None:
        module.set_many_double_buffer_constants(with_weights(rng.choice([2, 3, 4])))
        module.swap_constants()

    def change() -> None:
        set_threads(rng.choice([1, 2, 3, 4]))

    def lazy() -> None:
        made = (gh.array(ONE) * 3 + 1).numpy()
        assert np.all(made == 4), "a lazy tensor is wrong"

    works = [
        lambda: weights_of(module), lambda: weights_of(module), lambda: count_of(steps),
        lambda: count_of(steps), swap, lazy, change, lambda: squares(3),
    ]  # fmt: skip
    asked = [rng.choice(works) for _ in range(rng.randrange(1, 6))]
    deep = rng.random() < 0.3

    def work() -> None:
        assert gc.isenabled(), "the collector stays off in the child"
        for one in asked:
            one()
        before = count_of(steps)
        assert count_of(steps) == before + 1, "a step is lost"
        if deep:
            with Together([lambda: weights_of(module)] * 2):
                in_child(lambda: weights_of(module))

    with Together(rng.sample(works, rng.randrange(2, len(works)))):
        for _ in range(rng.randrange(1, 8)):
            in_child(work)
    before = count_of(steps)
    assert count_of(steps) == before + 1


SAVES = """
import itertools, sys
sys.path.insert(0, {tests!r})
import glasshouse as gh
from fuzz import process_stress as p
module = gh.load({base!r})
print("ready", flush=True)
for k in itertools.cycle([2, 3, 4]):
    module.set_many_constants(p.with_weights(k))
    module.save({folder!r}, weights={where!r})
"""


def _start(code: str, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, **env}, start_new_session=True,
    )  # fmt: skip


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With all that it started, as the system does when memory runs out or a job is cancelled."""
    with contextlib.suppress(ProcessLookupError):  # it was quicker
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def kill_save(rng: random.Random) -> None:
    """A killed save leaves a model that is whole, or none: never half of one, never a mixture."""
    with tempfile.TemporaryDirectory() as root:
        base, folder = Path(root, "base"), Path(root, "saved")
        squares(2).save(base)
        where = rng.choice(["library", "file"])
        tests = str(Path(__file__).resolve().parent.parent)
        names = {"tests": tests, "base": str(base), "folder": str(folder), "where": where}
        process = _start(SAVES.format(**names))
        assert process.stdout is not None  # asked for above
        process.stdout.readline()
        _readers_until(folder, rng.uniform(0.0, 1.5))
        _kill(process)
        if (folder / "module.json").exists():  # the last file that a save moves there
            weights_of(gh.load(folder))
        squares(3).save(folder, weights=where)
        assert weights_of(gh.load(folder)) == 3
        left = list(folder.glob("partial-*"))
        assert not left, f"left behind: {left}"


def _readers_until(folder: Path, seconds: float) -> None:
    """Load while it is being saved: a model of one save, or an error that says what is wrong."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            weights_of(gh.load(folder))
        except FormatError:
            time.sleep(0.01)


COMPILES = """
import sys
sys.path.insert(0, {tests!r})
from fuzz import process_stress as p
print(p.weights_of(p.squares({k})), flush=True)
"""


def kill_compile(rng: random.Random) -> None:
    """A killed compilation leaves a cache that the next one repairs and cleans."""
    with tempfile.TemporaryDirectory() as root:
        squares(2)  # so that its templates are in the cache
        cache = Path(root, f"user-{os.geteuid()}")
        unfinished = shutil.ignore_patterns("partial-*")
        with contextlib.suppress(shutil.Error):  # others change theirs meanwhile
            shutil.copytree(cache_folder(), cache, ignore=unfinished)
        for path in [
            *cache.glob("*.so"),
            *cache.glob("*.in"),
        ]:  # kernels are compiled again, templates are not
            path.unlink()
        tests = str(Path(__file__).resolve().parent.parent)
        code = COMPILES.format(tests=tests, k=2)
        process = _start(code, GLASSHOUSE_CACHE=root)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.3, 4.0))
        _kill(process)
        again = _start(code, GLASSHOUSE_CACHE=root)
        out, err = again.communicate(timeout=600)
        assert again.returncode == 0, err.decode(errors="replace")[-2000:]
        assert out.strip() == b"2", f"{out!r} instead of the weights"
        left = list(cache.glob("partial-*"))
        assert not left, f"left behind: {left}"


def refuse(rng: random.Random) -> None:
    """A call in the middle of which a fork happens again and again, with a step that waits."""
    steps = counter()
    there, go = threading.Event(), threading.Event()

    def hold(*_: Any) -> None:
        there.set()
        go.wait(rng.uniform(0.0, 0.3))

    thread = threading.Thread(target=steps.watch, args=([ONE], hold))
    thread.start()
    there.wait()

    def work() -> None:
        with contextlib.suppress(ExecutionError):
            count_of(steps)

    in_child(work)
    go.set()
    thread.join()
    count_of(steps)


CASES: dict[str, Callable[[random.Random], None]] = {
    "fork": fork, "kill_save": kill_save, "kill_compile": kill_compile, "refuse": refuse,
}  # fmt: skip
SHARES = ("fork",) * 6 + ("kill_save",) * 4 + ("kill_compile", "refuse", "refuse")


def run(seed: int, until: float, report: Report) -> None:
    """Cases one after the other, each from a seed of its own."""
    rng = random.Random(seed)
    while time.monotonic() < until:
        kind, number = rng.choice(SHARES), rng.randrange(2**31)
        again = f"python tests/fuzz/process_stress.py {kind} {number}"
        report.case(again)
        try:
            CASES[kind](random.Random(number))
        except Exception as error:
            report.found(f"{kind}: {str(error)[:80] or type(error).__name__}",
                         traceback.format_exc(), again)  # fmt: skip


if __name__ == "__main__":
    CASES[sys.argv[1]](random.Random(int(sys.argv[2])))
    print("nothing found")
