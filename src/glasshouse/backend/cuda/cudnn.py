"""Convolutions of cuDNN: forward, and the gradients by image and by weights, of 1 to 3 axes.

Images lie with their channels last and weights [filters, taps, channels of a group]. An algorithm
is the first of those that the library's heuristic names which gives the same sums in every run,
rounds float32 only where that is asked for, and needs no more room than it may have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from glasshouse.backend.cuda.cudnn_descriptors import (
    CONVOLUTION_MODE,
    DATA_TYPE,
    DESCRIPTOR,
    DOUBLE,
    FLOAT,
    HANDLE,
    HEURISTIC,
    INT64,
    NOTE,
    POINTER,
    Cudnn,
    Descriptor,
    cudnn,
)
from glasshouse.backend.cuda.installed_library import ROOM_ALIGNED
from glasshouse.backend.cuda.prepared_calls import At, Put, Step
from glasshouse.errors import ExecutionError, LibraryRefused

CUDNN, CUDNN_TF32 = "cudnn", "cudnn_tf32"
"""The names of the variants: in the second, float32 is rounded to TF32 when it is multiplied."""
FORWARD, DATA, WEIGHTS = "forward", "data", "weights"
"""What is computed: results, or the gradient by the image or by the weights."""
WORKSPACE = 256 << 20
"""Bytes that an algorithm may use at most. They are part of the arena, which kernels share."""
_ALIGNMENT = 16
_MOST_ENGINES = 32
_SET = "cudnnBackendSetAttribute"

_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
_CONVOLUTION, _ENGINE, _CONFIG, _HEURISTICS, _PLAN = 1, 2, 3, 4, 5  # kinds of descriptors
_GRAPH, _PACK, _TENSOR = 15, 16, 17
_CORRELATION = 1  # the kernel is not flipped
_MODES = (3, 2)  # heuristics: the decision tree; engines that always work
_TENSOR_CORE, _CONVERTS_INPUTS, _REDUCED_SUMS, _NONDETERMINISTIC = 0, 1, 2, 4  # notes of engines

# By what is computed: the kind of the operation, and its attributes alpha, beta, convolution, then
# those of image, weights and result.
_OPERATIONS = {
    FORWARD: (10, (700, 701, 702), (704, 703, 705)),
    DATA: (12, (706, 707, 708), (710, 709, 711)),
    WEIGHTS: (11, (712, 713, 714), (716, 715, 717)),
}
_NAMES = (1, 2, 3)
"""Of image, weights and result, when pointers are given."""


@dataclass(frozen=True)
class Convolution:
    """A convolution of image [batch, channels, spatial...] with weights [filters, channels of a
    group, kernel...] to result [batch, filters, spatial...], and what of it is computed."""

    kind: str
    dtype: str
    image: tuple[int, ...]
    weights: tuple[int, ...]
    result: tuple[int, ...]
    stride: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    dilation: tuple[int, ...]
    tf32: bool = False


@dataclass(frozen=True)
class Plan:
    """How cuDNN computes a convolution: an engine, set up, and the bytes of room that it needs."""

    descriptor: Descriptor
    engine: int
    room: int


def _last(shape: Sequence[int]) -> tuple[list[int], list[int]]:
    """Sizes with at least two spatial axes, and strides with the second axis last."""
    sizes = [*shape[:2], *[1] * (4 - len(shape)), *shape[2:]]
    strides, step = [0] * len(sizes), 1
    for axis in (1, *range(len(sizes) - 1, 1, -1), 0):
        strides[axis] = step
        step *= sizes[axis]
    return sizes, strides


def _graph(library: Cudnn, given: Convolution) -> Descriptor:
    def tensor(name: int, shape: Sequence[int]) -> Descriptor:
        sizes, strides = _last(shape)
        made = Descriptor(library, _TENSOR)
        made.set(901, DATA_TYPE, _TYPES[given.dtype]).set(902, INT64, *sizes)
        made.set(903, INT64, *strides).set(906, INT64, name)
        return made.set(900, INT64, _ALIGNMENT).finished()

    def axes(numbers: Sequence[int], missing: int) -> list[int]:
        return [*[missing] * (2 - len(numbers)), *numbers]

    double = given.dtype == "float64"
    convolution = Descriptor(library, _CONVOLUTION)
    convolution.set(100, DATA_TYPE, _TYPES["float64" if double else "float32"])
    convolution.set(101, CONVOLUTION_MODE, _CORRELATION)
    convolution.set(106, INT64, max(len(given.stride), 2))
    convolution.set(102, INT64, *axes(given.dilation, 1)).set(103, INT64, *axes(given.stride, 1))
    convolution.set(104, INT64, *axes(given.ends, 0)).set(105, INT64, *axes(given.begins, 0))
    convolution.finished()
    kind, (alpha, beta, window), places = _OPERATIONS[given.kind]
    scale = DOUBLE if double else FLOAT
    operation = Descriptor(library, kind).set(alpha, scale, 1.0).set(beta, scale, 0.0)
    operation.set(window, DESCRIPTOR, convolution)
    shapes = (given.image, given.weights, given.result)
    for name, place, shape in zip(_NAMES, places, shapes, strict=True):
        operation.set(place, DESCRIPTOR, tensor(name, shape))
    graph = Descriptor(library, _GRAPH).set(800, HANDLE, library.handle)
    return graph.set(801, DESCRIPTOR, operation.finished()).finished()


def _engines(library: Cudnn, graph: Descriptor) -> Iterator[Descriptor]:
    """Engines with their settings, the likely fastest first."""
    for mode in _MODES:
        asked = Descriptor(library, _HEURISTICS).set(201, DESCRIPTOR, graph)
        try:
            asked.set(200, HEURISTIC, mode).finished()
            yield from asked.parts(202, _CONFIG, _MOST_ENGINES)
        except LibraryRefused:  # it knows none
            continue


def _is_exact(notes: Sequence[int], given: Convolution) -> bool:
    """Whether an engine's sums are those that were asked for, and the same in every run."""
    rounds = {_NONDETERMINISTIC, _REDUCED_SUMS}
    if given.dtype == "float32":
        rounds.add(_CONVERTS_INPUTS)
        rounds |= set() if given.tf32 else {_TENSOR_CORE}
    return rounds.isdisjoint(notes)


@lru_cache(maxsize=1024)
def _planned(library: Cudnn, given: Convolution, most: int) -> Plan | None:
    with library.lock:
        try:
            graph = _graph(library, given)
        except LibraryRefused:
            return None
        for config in _engines(library, graph):
            try:
                (engine,) = config.parts(300, _ENGINE, 1)
                if not _is_exact(engine.numbers(1303, NOTE, 16), given):
                    continue
                plan = Descriptor(library, _PLAN).set(400, HANDLE, library.handle)
                plan.set(401, DESCRIPTOR, config).finished()
                (room,) = plan.numbers(402, INT64, 1)
                if room <= most:
                    return Plan(plan, engine.numbers(1301, INT64, 1)[0], room)
            except (LibraryRefused, ValueError):
                continue
    return None


def plan_of(given: Convolution, most: int = WORKSPACE) -> Plan | None:
    """How cuDNN would compute a convolution; None where it cannot, or where there is none."""
    library = cudnn()
    if library is None or 0 in (*given.image, *given.weights, *given.result):
        return None
    return _planned(library, given, most)


def described(given: Convolution) -> dict[str, Any]:
    """A convolution as the plan of a program has it."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(given).items()}


class LibraryConvolution:
    """One convolution as the plan of a program describes it.

    `told`: "convolution", as `described` gives it; "places", the argument of image, weights and
    result, with how many bytes behind it each lies; "room", where in the workspace its own is, and
    how many bytes.
    """

    def __init__(self, told: Mapping[str, Any]) -> None:
        numbers = told["convolution"].items()
        plain: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in numbers}
        given = Convolution(**plain)
        library = cudnn()
        if library is None:
            raise ExecutionError(
                "a convolution of this module is cuDNN's, which is not installed here",
                hint="compile the model here, or with GLASSHOUSE_CUDNN=0",
            )
        self._library = library
        self._places = told["places"]
        self._room, most = told["room"]
        plan = plan_of(given, most)
        if plan is None:
            raise LibraryRefused("cuDNN has no algorithm for a convolution")
        self._plan = plan.descriptor
        self.lock = library.lock

    def steps(self, arguments: int, stream: int) -> list[Step]:
        """The convolution in a stream. Its pointers stand in a descriptor, which is of no further
        use once the library was told to begin."""
        call, handle = self._library.prepared, self._library.handle
        names = (ctypes.c_int64 * len(_NAMES))(*_NAMES)
        words = (ctypes.c_uint64 * (len(_NAMES) + 2))()  # tensors, room, the descriptor
        tensors = ctypes.addressof(words)
        room, made = tensors + 8 * len(_NAMES), tensors + 8 * len(_NAMES) + 8
        where = [At(arguments + 8 * number, offset) for number, offset in self._places]
        where.append(At(arguments, self._room, ROOM_ALIGNED))
        given: list[Step] = [Put(tensors + 8 * n, place, words) for n, place in enumerate(where)]
        pack = At(made)

        def told(attribute: int, kind: int, count: int, address: int) -> Step:
            return call(_SET, pack, attribute, kind, count, address, keeps=(names, words))

        return [
            *given,
            call("cudnnSetStream", handle, At(stream)),
            call("cudnnBackendCreateDescriptor", _PACK, made, keeps=words),
            told(1000, INT64, len(_NAMES), ctypes.addressof(names)),
            told(1001, POINTER, len(_NAMES), tensors),
            told(1003, POINTER, 1, room),
            call("cudnnBackendFinalize", pack),
            call("cudnnBackendExecute", handle, self._plan.address, pack, keeps=self._plan),
            call("cudnnBackendDestroyDescriptor", pack),
        ]
