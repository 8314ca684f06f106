"""Calls that are prepared once: in C++ and in Python they are made alike."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cuda_emulator import compiled
from glasshouse.backend.cuda import host_build, prepared_calls
from glasshouse.backend.cuda.prepared_calls import (
    MOST,
    At,
    PreparedCall,
    PreparedCalls,
    Put,
    Step,
    make_in_python,
)
from glasshouse.errors import CompilerMissing, ExecutionError

_NOTED = """
#include <stdint.h>
#include <vector>
static std::vector<int64_t> notes;
extern "C" {
int many(int64_t a, int b, unsigned c, uint64_t d, int64_t e, int f, int g, const int64_t* h,
         int64_t i, int j, int64_t k, int l, int64_t m, int n, int64_t o, unsigned p) {
  const int64_t all[] = {a, b, c, (int64_t)d, e, f, g, h[0] + h[1], i, j, k, l, m, n, o, p};
  notes.assign(all, all + 16);
  return 0;
}
int few(int64_t a, int b) { return notes.push_back(a), b; }
int64_t count() { return (int64_t)notes.size(); }
int64_t note(int64_t i) { return notes[i]; }
void forget() { notes.clear(); }
}
"""


@pytest.fixture(scope="module")
def library() -> Any:
    found = ctypes.CDLL(str(compiled(_NOTED, "noted_calls", "-O1")))
    wide, whole = ctypes.c_int64, ctypes.c_int
    found.many.argtypes = (
        wide, whole, ctypes.c_uint, ctypes.c_uint64, wide, whole, whole, ctypes.c_void_p, wide,
        whole, wide, whole, wide, whole, wide, ctypes.c_uint,
    )  # fmt: skip
    found.few.argtypes = (wide, whole)
    found.count.restype = found.note.restype = wide
    found.note.argtypes = (wide,)
    return found


def _in_cxx(steps: Sequence[Step]) -> Callable[[], None]:
    assert prepared_calls._native() is not None
    return PreparedCalls(steps).make


def _in_python(steps: Sequence[Step]) -> Callable[[], None]:
    return lambda: make_in_python(steps)


WAYS = pytest.mark.parametrize("way", [_in_cxx, _in_python])


def _refused(status: int) -> Exception:
    return ExecutionError(f"refused with {status}")


def _notes(library: Any) -> list[int]:
    found = [library.note(i) for i in range(library.count())]
    library.forget()
    return found


@WAYS
def test_words_are_read_when_a_call_is_made(library: Any, way: Any) -> None:
    cells = (ctypes.c_uint64 * 3)(100, 200, 1 << 63)
    pair = (ctypes.c_int64 * 2)()
    at, there = ctypes.addressof(cells), ctypes.addressof(pair)
    most = -(1 << 62)
    given = (
        -7, 2, 3, At(at, 0, 64), At(at + 8, 16, 8), 6, 7, there, At(at + 8, -300), 10, most, 12,
        13, 14, At(at + 16), (1 << 32) - 1,
    )  # fmt: skip
    assert len(given) == MOST
    steps: list[Step] = [
        Put(there, At(at, 1)), Put(there + 8, At(at + 8, 2)),
        PreparedCall(library.many, given, _refused, (cells, pair)),
    ]  # fmt: skip
    make = way(steps)
    make()
    low = -(1 << 63)
    assert _notes(library) == [
        -7, 2, 3, 128, 216, 6, 7, 303, -100, 10, most, 12, 13, 14, low, (1 << 32) - 1,
    ]  # fmt: skip
    cells[0], cells[1] = 1000, 2000
    make()
    made = _notes(library)
    assert (made[3], made[4], made[7]) == (1024, 2016, 3003)


@WAYS
def test_nothing_is_called_behind_one_that_is_refused(library: Any, way: Any) -> None:
    steps = [PreparedCall(library.few, (n, 9 if n == 1 else 0), _refused) for n in range(3)]
    with pytest.raises(ExecutionError, match="refused with 9"):
        way(steps)()
    assert _notes(library) == [0, 1]
    way([])()


def test_without_a_compiler_python_makes_them(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(named: str | None) -> list[str]:
        raise CompilerMissing("there is none")

    monkeypatch.setattr(host_build, "compiler_command", missing)
    prepared_calls._native.cache_clear()
    try:
        PreparedCalls([PreparedCall(library.few, (5, 0), _refused)]).make()
        assert prepared_calls._native() is None
    finally:
        prepared_calls._native.cache_clear()
    assert _notes(library) == [5]
