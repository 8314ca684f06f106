"""The thread pool: every part runs once.

Also nested, shared by several callers, resized, and after fork.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

Loader = Callable[[str], ctypes.CDLL]


def count(lib, handle, regions: int, nested: int, total: int) -> np.ndarray:
    parts = np.zeros(total, np.int64)
    lib.count_parts(
        handle, ctypes.c_long(regions), nested, ctypes.c_long(total),
        ctypes.c_void_p(parts.ctypes.data),
    )  # fmt: skip
    return parts


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("total", [1, 2, 3, 100])
def test_each_part_runs_once(load: Loader, threads: int, total: int) -> None:
    lib = load("rows")
    handle = ctypes.c_void_p(lib.pool_new(threads))
    assert (count(lib, handle, 200, 0, total) == 200).all()
    assert (count(lib, handle, 20, 1, total) == 60).all()
    lib.set_threads(handle, 3)
    assert (count(lib, handle, 50, 0, total) == 50).all()
    lib.pool_free(handle)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("items", [1, 7])
def test_each_item_is_taken_once_whoever_takes_it(load: Loader, threads: int, items: int) -> None:
    lib = load("rows")
    handle = ctypes.c_void_p(lib.pool_new(threads))
    parts = 3  # fewer or more than threads, as when the pool changes its size in between
    taken = np.zeros(parts * items, np.int64)
    lib.count_items(
        handle, ctypes.c_long(50), parts, items, ctypes.c_void_p(taken.ctypes.data)
    )  # fmt: skip
    assert (taken == 50).all()
    lib.pool_free(handle)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_part_keeps_what_it_captured_in_registers(load: Loader, threads: int) -> None:
    """A gather of 64 x 1000 read its output's address again for each element: 37 us for 22."""
    lib = load("rows")
    handle = ctypes.c_void_p(lib.pool_new(threads))
    assert lib.has_own_captures(handle, ctypes.c_long(8))
    lib.pool_free(handle)


def test_several_callers_share_one_pool(load: Loader) -> None:
    lib = load("rows")
    handle = ctypes.c_void_p(lib.pool_new(2))
    results: list[np.ndarray] = []
    callers = [
        threading.Thread(target=lambda: results.append(count(lib, handle, 2000, 0, 7)))
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(results) == 4
    assert all((r == 2000).all() for r in results)
    lib.pool_free(handle)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_runs_alone(load: Loader) -> None:
    lib = load("rows")
    handle = ctypes.c_void_p(lib.pool_new(2))
    count(lib, handle, 1, 0, 4)
    child = os.fork()
    if child == 0:
        good = bool((count(lib, handle, 10, 0, 4) == 10).all())
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (count(lib, handle, 10, 0, 4) == 10).all()
    lib.pool_free(handle)
