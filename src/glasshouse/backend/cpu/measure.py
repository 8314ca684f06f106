"""How variants of convolutions and products are timed: in turns, weights cold, data as in a model.

In a model a layer finds its input in the cache and its weights not, because all other layers ran
since. So a large buffer is read before each run, and then the input. One thread runs, and its
processor time counts: on a busy machine the wall time of two threads was off by a factor of 4, and
all variants share their work among threads alike. The least of some runs counts, as noise only
adds, and only once the least but one is about the same: otherwise the machine is too busy to tell.
Errors are taken against the variant that adds up in plain order.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import sqrt

import numpy as np

from glasshouse.backend.base import Progress
from glasshouse.backend.cpu import blocking
from glasshouse.backend.cpu.build import build
from glasshouse.backend.cpu.headers import include_apart, versions_apart
from glasshouse.backend.cpu.probe import PACK, RUN, SIZES, probe_source, probed
from glasshouse.backend.memory import Array, aligned_bytes
from glasshouse.ir.dtype import DType, as_dtype, to_storage
from glasshouse.lower.choice import Candidate, Problem

EXACT = {"conv": "im2col", "matmul": blocking.BY_CACHE}
ROUNDS = (3, 20)  # at least, at most
SAME = 1.08  # two runs that differ by less than this saw no noise
HOPELESS = 1.5  # a variant that takes so much longer than the best need not be known better
_COLD = 48 << 20  # bytes that push weights out of the caches


def measure_variants(
    problem: Problem, names: Sequence[str], progress: Progress | None = None
) -> list[Candidate] | None:
    """Seconds and error of each variant; None if the machine is too busy to tell."""
    library = ctypes.CDLL(str(build(probe_source(problem.op, problem.dtype), progress)))
    usual = EXACT[problem.op]
    x, w, result = _data(problem)
    variants = {name: _Variant(library, name, problem, x, w) for name in {*names, usual}}
    exact = variants[usual].run(result).copy()
    largest = float(np.max(np.abs(exact))) or 1.0
    errors = {n: float(np.max(np.abs(variants[n].run(result) - exact))) / largest for n in names}
    times = _timed({n: variants[n] for n in names}, result, x)
    if times is None:
        return None
    return [Candidate(n, times[n], errors[n]) for n in names]


def measured_as(problem: Problem) -> str:
    """The headers apart that the variants are made of; the others are the machine's identity."""
    variants = probed(problem.op, problem.dtype) if problem.op == "matmul" else ()
    names = [name for variant in variants for name in blocking.headers(variant)]
    return " ".join(versions_apart(include_apart(names)))


def _timed(variants: Mapping[str, _Variant], result: Array, x: Array) -> dict[str, float] | None:
    cold = np.zeros(_COLD // 8)
    times: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(ROUNDS[1]):
        for name, variant in variants.items():
            cold.sum()
            x.sum()
            begin = time.thread_time()
            variant.run(result)
            times[name].append(time.thread_time() - begin)
        if number >= ROUNDS[0] - 1 and settled(times):
            return {name: min(seconds) for name, seconds in times.items()}
    return None


def settled(times: Mapping[str, Sequence[float]]) -> bool:
    """Whether each variant that may be the best has two runs that took about the least."""
    best = min(min(seconds) for seconds in times.values())
    for seconds in times.values():
        first, second = sorted(seconds)[:2]
        if first <= best * HOPELESS and second > first * SAME:
            return False
    return True


def _data(problem: Problem) -> tuple[Array, Array, Array]:
    """Image, weights and memory for the result; of the size that activations tend to have."""
    n, dtype = problem.numbers, as_dtype(problem.dtype)
    if problem.op == "matmul":
        return _product_data(n, dtype)
    batch, height, width, channels, out_height, out_width, filters, kh, kw = n[:9]
    random = np.random.default_rng(0)
    depth = channels // n[15] * kh * kw
    x = random.standard_normal((batch, height, width, channels), np.float32)
    w = random.standard_normal((filters, depth), np.float32) / np.float32(sqrt(depth))
    x, w = (np.ascontiguousarray(to_storage(a, dtype)) for a in (x, w))
    return x, w, np.empty((batch, out_height, out_width, filters), np.float32)


def _product_data(numbers: Sequence[int], dtype: DType) -> tuple[Array, Array, Array]:
    rows, columns, depth = numbers
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, depth), np.float32)
    w = random.standard_normal((depth, columns), np.float32) / np.float32(sqrt(depth))
    x, w = (np.ascontiguousarray(to_storage(a, dtype)) for a in (x, w))
    return x, w, np.empty((rows, columns), np.float32)


class _Variant:
    """One variant with its weights packed."""

    def __init__(
        self, library: ctypes.CDLL, name: str, problem: Problem, x: Array, w: Array
    ) -> None:
        self._call = library.glasshouse_probe
        self._variant = probed(problem.op, problem.dtype).index(name)
        self._numbers = (ctypes.c_int64 * len(problem.numbers))(*problem.numbers)
        self._pool = _one_thread(str(library._name))
        self._x = x
        bytes_ = (ctypes.c_int64 * 2)()
        self._probe(SIZES, None, None, None, None, bytes_)
        self._packed, self._work = aligned_bytes(bytes_[0]), aligned_bytes(bytes_[1])
        self._probe(PACK, w, self._packed, None, None, None)

    def run(self, result: Array) -> Array:
        self._probe(RUN, None, self._packed, self._work, result, None)
        return result

    def _probe(self, what: int, w: Array | None, *rest: object) -> None:
        packed, work, result, bytes_ = rest
        arrays = [_address(a) for a in (self._x, w, packed, work, result)]
        self._call(self._variant, what, self._pool, self._numbers, *arrays, bytes_)


@lru_cache(maxsize=1)
def _one_thread(path: str) -> ctypes.c_void_p:
    library = ctypes.CDLL(path)
    library.glasshouse_pool.restype = ctypes.c_void_p
    return ctypes.c_void_p(library.glasshouse_pool(1))


def _address(array: object) -> ctypes.c_void_p | None:
    return ctypes.c_void_p(array.ctypes.data) if isinstance(array, np.ndarray) else None
