"""A forked child: no hang, no crash and the same numbers, whatever other threads were doing."""

from __future__ import annotations

import ctypes
import gc
import importlib.abc
import importlib.machinery
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.backend.cpu import spawn
from glasshouse.backend.cpu.threads import set_threads
from glasshouse.collection import NEVER, no_collection, no_full_collection
from glasshouse.errors import ExecutionError
from glasshouse.forking import ForkAware, ForkLock
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import float32
from glasshouse.lower.kernel.statement import Form
from glasshouse.passes import Instrument, PassContext
from glasshouse.runtime import workspace
from glasshouse.runtime.compiler import compile_graph
from glasshouse.runtime.lazy import LazyExecutor
from glasshouse.runtime.module import Module
from glasshouse.runtime.shared_forms import share
from glasshouse.tensor.execute import current_executor

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
HANGS = 60  # seconds after which the system ends a child


def in_child(work: Callable[[], Any]) -> None:
    """Do `work` in a forked child; what it raises, a crash or a hang fails the test."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(HANGS)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code != -signal.SIGALRM, "the child hangs"
    assert code == 0


@contextmanager
def meanwhile(work: Callable[[Callable[..., None]], Any]) -> Iterator[None]:
    """A thread that is in the middle of `work`, at the place where that calls its argument."""
    there, go = threading.Event(), threading.Event()

    def stop_here(*_: Any) -> None:
        there.set()
        go.wait()

    thread = threading.Thread(target=work, args=(stop_here,))
    thread.start()
    there.wait()
    try:
        yield
    finally:
        go.set()
        thread.join()


X = np.linspace(-1, 1, 64 * 256, dtype=np.float32).reshape(64, 256)


@pytest.fixture(scope="module")
def module() -> Module:
    gh.manual_seed(0)
    layers = [nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256), nn.LayerNorm(256)]
    return gh.compile(nn.Sequential(*layers), X)


@pytest.fixture(scope="module")
def counter() -> Module:
    """Two variables that every step raises by one."""
    builder = GraphBuilder()
    x = builder.input("float32", [4096])
    names = ("first", "second")
    first, second = (builder.variable(np.zeros(4096, np.float32), name=n) for n in names)
    builder.update(first, first + x)
    builder.update(second, second + x)
    return compile_graph(builder.finish(first * 1.0, second * 1.0))


ONE = np.ones(4096, np.float32)


def step(counter: Module) -> float:
    """One step; the count before it."""
    first, second = counter(ONE)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, first[0])
    return float(first[0])


def test_another_thread_is_in_a_call(module: Module) -> None:
    expected = module(X)

    def check() -> None:
        for _ in range(3):
            np.testing.assert_array_equal(module(X), expected)

    with meanwhile(lambda here: module.watch([X], here)):
        in_child(check)
    check()


def test_other_threads_run_kernels_on_the_pool(module: Module) -> None:
    expected = module(X)
    ended = threading.Event()

    def call() -> None:
        while not ended.is_set():
            np.testing.assert_array_equal(module(X), expected)

    def check() -> None:
        np.testing.assert_array_equal(module(X), expected)
        set_threads(3)  # waited for ever where a region was under way
        np.testing.assert_array_equal(module(X), expected)
        assert len(os.listdir("/proc/self/task")) == 3, "the child has its own workers"
        callers = [threading.Thread(target=module, args=(X,)) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()

    set_threads(2)
    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            in_child(check)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        set_threads(len(os.sched_getaffinity(0)))


def test_a_change_of_the_number_of_threads_loses_no_part_of_a_run(module: Module) -> None:
    expected = module(X)
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            for count in (4, 1, 3, 2):
                set_threads(count)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            np.testing.assert_array_equal(module(X), expected)
    finally:
        ended.set()
        thread.join()
        set_threads(len(os.sched_getaffinity(0)))


def test_a_fork_falls_between_two_steps_that_change_variables(counter: Module) -> None:
    ended = threading.Event()

    def steps() -> None:
        while not ended.is_set():
            step(counter)

    def check() -> None:
        before = step(counter)
        assert step(counter) == before + 1

    threads = [threading.Thread(target=steps) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            in_child(check)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    check()


def test_variables_that_may_be_half_written_are_refused(
    counter: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "PATIENCE", 0.0)

    def check() -> None:
        for _ in range(2):
            with pytest.raises(ExecutionError, match="forked while another thread changed"):
                counter(ONE)
        with pytest.raises(ExecutionError, match="half written"):
            counter.set_constant("first", ONE)

    with meanwhile(lambda here: counter.watch([ONE], here)):
        in_child(check)
    step(counter)


def test_a_step_that_forks_ends_on_both_sides(counter: Module) -> None:
    children: list[int] = []
    before = step(counter)

    def fork(*_: Any) -> None:
        if not children:
            children.append(os.fork())

    counter.watch([ONE], fork)
    if children == [0]:
        try:
            signal.alarm(HANGS)
            os._exit(0 if step(counter) == before + 2 else 1)
        finally:
            os._exit(1)
    assert os.waitpid(children[0], 0)[1] == 0
    assert step(counter) == before + 2


def test_another_thread_compiles() -> None:
    model = nn.Linear(8, 4)
    x = np.ones((2, 8), np.float32)

    class Stops(Instrument):
        """Stops at the first pass."""

        def __init__(self, here: Callable[..., None]) -> None:
            self.here = here

        def begin_pass(self, *_: object) -> None:
            self.here()

    def compiling(here: Callable[..., None]) -> None:
        with PassContext() as ctx:
            ctx.instruments.append(Stops(here))
            gh.compile(model, x)

    def check() -> None:
        assert gc.isenabled()
        gh.compile(model, x)(x)

    with meanwhile(compiling):
        in_child(check)


def test_the_thread_that_pauses_the_collector_keeps_it_paused() -> None:
    def check() -> None:
        assert not gc.isenabled()

    with no_collection():
        in_child(check)
    assert gc.isenabled()


def test_full_collections_are_held_back_by_threads_that_are_there() -> None:
    usual = gc.get_threshold()

    def holding(here: Callable[..., None]) -> None:
        with no_full_collection(), no_full_collection():
            here()

    def is_usual() -> None:
        assert gc.get_threshold() == usual

    def is_held() -> None:
        assert gc.get_threshold() == (*usual[:2], NEVER)

    with meanwhile(holding):
        is_held()
        in_child(is_usual)
        with no_full_collection():
            in_child(is_held)
        is_held()  # the other thread's
    is_usual()
    with no_full_collection():
        in_child(is_held)
    is_usual()


def test_another_thread_runs_lazy_tensors() -> None:
    executor = current_executor()
    assert isinstance(executor, LazyExecutor)

    def holding(here: Callable[..., None]) -> None:
        with executor._lock.lock:
            here()

    def check() -> None:
        np.testing.assert_array_equal((gh.array(ONE) + 1).numpy(), 2 * ONE)

    with meanwhile(holding):
        in_child(check)


def test_a_fork_waits_until_a_compiler_is_started() -> None:
    started: list[int] = []

    def starting(here: Callable[..., None]) -> None:
        with spawn._starting.lock:
            here()
            started.append(1)

    def check() -> None:
        assert started
        assert spawn.run_program(["true"]).returncode == 0

    there, go = threading.Event(), threading.Event()

    def stop() -> None:
        there.set()
        go.wait()

    thread = threading.Thread(target=starting, args=(stop,))
    thread.start()
    there.wait()
    go.set()  # it goes on when the fork lets it
    in_child(check)
    thread.join()


def test_locks_and_owners_that_are_gone_are_forgotten() -> None:
    class Told(ForkAware):
        def __init__(self) -> None:
            self.heard: list[str] = []
            self.watch_forks()

        def before_fork(self) -> None:
            self.heard.append("before")

        def after_fork_in_parent(self) -> None:
            self.heard.append("parent")

        def after_fork_in_child(self) -> None:
            self.heard.append("child")

    told, lock = Told(), ForkLock()

    def check() -> None:
        assert told.heard == ["before", "child"]
        with lock.lock:
            pass

    with lock.lock:  # of the thread that forks: the block ends well on both sides
        in_child(check)
    assert told.heard == ["before", "parent"]


def test_what_watches_may_come_and_go_while_a_process_forks() -> None:
    """A fork that stumbles over it leaves variables paused for ever; told as a warning."""
    ended = threading.Event()
    kept = [ForkLock() for _ in range(3000)]

    def come_and_go() -> None:
        while not ended.is_set():
            kept[:] = [ForkLock() for _ in range(100)] + kept[:2900]

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(20):
            in_child(lambda: None)
    finally:
        ended.set()
        thread.join()


def test_another_thread_sets_constants(module: Module) -> None:
    """Packing asks a `Room` for memory, whose lock another thread may have held."""
    name = module.constant_names()[0]
    data = module.source_array(module._by_name[name].node).copy()
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            module.set_constant(name, data)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(5):
            in_child(lambda: module.set_constant(name, data))
    finally:
        ended.set()
        thread.join()


def test_another_thread_prepares_weights_of_a_captured_graph(module: Module) -> None:
    torch = pytest.importorskip("torch")
    from glasshouse.frontend.dynamo.held import HeldModules

    first, second, third = ([torch.full((2,), float(i))] for i in range(3))
    stops: list[Callable[..., None]] = []

    def make(*_: Any) -> Module:
        if stops:
            stops.pop()()
        return module

    held = HeldModules({0: "weight"}, first, make)

    def preparing(here: Callable[..., None]) -> None:
        stops.append(here)
        held.module(second)

    with meanwhile(preparing):
        in_child(lambda: held.module(third))


def test_another_thread_shares_packed_weights() -> None:
    torch = pytest.importorskip("torch")

    class Owned(np.ndarray[Any, Any]):
        owner = torch.ones(1)

    class Stamps:
        def __init__(self, stop: Callable[..., Any]) -> None:
            self.stop = stop

        def stamp(self, *_: int) -> int:
            self.stop()
            return 0

    source, made, form = (
        np.ones(4).view(Owned),
        np.ones(4),
        Form("w", "panels", float32, (4,), True),
    )

    def sharing(here: Callable[..., Any]) -> None:
        share(source, form, made, Stamps(here))  # type: ignore[arg-type]  # asked for stamps alone

    with meanwhile(sharing):
        in_child(lambda: sharing(int))


def in_worker(count: int) -> Any:
    return kept[0](X) + count


kept: list[Module] = []


def test_workers_of_multiprocessing(module: Module) -> None:
    expected = module(X)
    kept[:] = [module]  # workers inherit it
    fork = multiprocessing.get_context("fork")
    with meanwhile(lambda here: module.watch([X], here)), fork.Pool(2) as workers:
        made = workers.map_async(in_worker, range(6)).get(HANGS)
    for count, array in enumerate(made):
        np.testing.assert_array_equal(array, expected + count)


def test_workers_of_a_data_loader(module: Module) -> None:
    torch = pytest.importorskip("torch")
    expected = torch.from_numpy(module(X))

    class Embedded(torch.utils.data.Dataset):  # type: ignore[name-defined,misc]  # untyped
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> Any:
            return torch.from_numpy(module(X)) + index

    loader = torch.utils.data.DataLoader(
        Embedded(), batch_size=2, num_workers=2, multiprocessing_context="fork", timeout=HANGS
    )
    with meanwhile(lambda here: module.watch([X], here)):
        for number, batch in enumerate(loader):
            torch.testing.assert_close(batch[0], expected + 2 * number, rtol=0, atol=0)


def test_a_server_that_loads_before_it_forks(module: Module, tmp_path: Path) -> None:
    """Workers answer from several threads at once, and fork again."""
    loaded = gh.load(module.save(tmp_path))
    expected = loaded(X)

    def serve() -> None:
        right: list[bool] = []

        def request() -> None:
            right.extend(np.array_equal(loaded(X), expected) for _ in range(20))

        threads = [threading.Thread(target=request) for _ in range(3)]
        for thread in threads:
            thread.start()
        in_child(lambda: np.testing.assert_array_equal(loaded(X), expected))
        for thread in threads:
            thread.join()
        assert right == [True] * 60

    in_child(serve)
    in_child(serve)


def test_a_saved_model_behind_the_c_interface(module: Module, tmp_path: Path) -> None:
    expected = module(X)
    library = ctypes.CDLL(str(module.save(tmp_path) / "libmodel.so"))
    library.model_create.restype = ctypes.c_void_p
    model = ctypes.c_void_p(library.model_create(str(tmp_path).encode(), 2))
    ended = threading.Event()

    def run() -> Any:
        out = np.zeros_like(expected)
        given = (ctypes.c_void_p * 1)(X.ctypes.data)
        assert library.model_run(model, given, (ctypes.c_void_p * 1)(out.ctypes.data), None) == 0
        return out

    def call() -> None:
        while not ended.is_set():
            run()

    thread = threading.Thread(target=call)
    thread.start()
    try:
        for _ in range(10):
            in_child(lambda: np.testing.assert_array_equal(run(), expected))
    finally:
        ended.set()
        thread.join()
    np.testing.assert_array_equal(run(), expected)
    library.model_destroy(model)


def test_another_thread_begins_to_import_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock is held before `sys.modules` knows of it; the child's own import must not wait."""
    begun, go_on = threading.Event(), threading.Event()
    name = "glasshouse_nowhere"

    class Slow(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, wanted: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
            return importlib.machinery.ModuleSpec(name, self) if wanted == name else None

        def create_module(self, spec: Any) -> None:
            begun.set()
            go_on.wait(HANGS)
            raise ModuleNotFoundError(name)

        def exec_module(self, module: Any) -> None:
            raise AssertionError("no module was made")

    def find() -> None:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)

    monkeypatch.setattr(sys, "meta_path", [Slow(), *sys.meta_path])
    thread = threading.Thread(target=find)
    thread.start()
    try:
        assert begun.wait(HANGS)
        monkeypatch.undo()
        in_child(find)
    finally:
        go_on.set()
        thread.join(HANGS)
