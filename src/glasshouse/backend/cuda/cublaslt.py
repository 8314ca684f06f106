"""cuBLASLt through ctypes: matrix products of NVIDIA's library, as candidates beside our own.

The library is used where it is installed (PyTorch's packages and the toolkit have it) and never
needed: without it there is one candidate less. `GLASSHOUSE_CUBLASLT=0` leaves it out.

Matrices here lie row by row and the library's column by column, so what it is asked for is the
transposed product: `out^T[n, m] = right[n, k] left[m, k]^T`. An operand that lies across the depth,
`right[k, n]` or `left[k, m]`, is what it is asked for without turning it, or turned.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from glasshouse.backend.cuda.installed_library import ROOM_ALIGNED, DeclaredLibrary, installed
from glasshouse.backend.cuda.prepared_calls import At, Step
from glasshouse.errors import ExecutionError, LibraryRefused

CUBLASLT = "cublaslt"
"""The name of the variant."""
WORKSPACE = 4 << 20
"""Bytes that a product may use to share its depth among blocks."""
_SWITCH = "GLASSHOUSE_CUBLASLT"
_FLOAT32, _COMPUTE_FLOAT32 = 0, 68  # CUDA_R_32F, CUBLAS_COMPUTE_32F: no TF32
_FLOAT64, _COMPUTE_FLOAT64 = 1, 70  # CUDA_R_64F, CUBLAS_COMPUTE_64F
_TYPES = {"float32": _FLOAT32, "float16": 2, "bfloat16": 14, "float64": _FLOAT64}
_TRANSPOSE_FIRST, _TRANSPOSE_SECOND, _EPILOGUE, _BIAS = 3, 4, 7, 8  # attributes of a product
_ROOM, _REDUCTIONS, _ALIGNED = 1, 3, (5, 6, 7, 8)  # attributes of a preference
_ALIGNMENT = 16
"""Bytes to which all operands are aligned; unasked, the library counts on 256, and refuses others
when it is called."""
_AS_COMPUTED = 2  # shares of a depth are added up in the type of sums
_ADDS_BIAS = 4
ACTIVATIONS = {"": 0, "relu": 2, "gelu_tanh": 32}
"""Flags of what follows a product; 1 is nothing at all."""
_ADDRESS, _INT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t

# Every function with the types of its parameters; all give a status.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cublasLtCreate": (_ADDRESS,),
    "cublasLtMatmulDescCreate": (_ADDRESS, _INT, _INT),
    "cublasLtMatmulDescSetAttribute": (_ADDRESS, _INT, _ADDRESS, _SIZE),
    "cublasLtMatrixLayoutCreate": (
        _ADDRESS, _INT, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64,
    ),
    "cublasLtMatmulPreferenceCreate": (_ADDRESS,),
    "cublasLtMatmulPreferenceSetAttribute": (_ADDRESS, _INT, _ADDRESS, _SIZE),
    "cublasLtMatmulAlgoGetHeuristic": (*[_ADDRESS] * 7, _INT, _ADDRESS, _ADDRESS),
    "cublasLtMatmul": (*[_ADDRESS] * 14, _SIZE, _ADDRESS),
    "cublasLtMatmulPreferenceDestroy": (_ADDRESS,),
    "cublasLtMatrixLayoutDestroy": (_ADDRESS,),
    "cublasLtMatmulDescDestroy": (_ADDRESS,),
}  # fmt: skip


class _Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, the room it needs, whether it can run."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("room", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class CublasLt(DeclaredLibrary):
    """Functions of `libcublasLt`, and a handle in the context that is current."""

    name = "cuBLASLt"

    def __init__(self, found: Any) -> None:
        super().__init__(found, _FUNCTIONS, "cublasLtGetVersion")

    @property
    def handle(self) -> int:
        self._handle = self._handle or self.made("cublasLtCreate")
        return self._handle


@lru_cache(maxsize=1)
def _library() -> CublasLt | None:
    names = ("libcublasLt.so.13", "libcublasLt.so.12")
    return installed(names, ("cu*/lib", "cublas/lib"), CublasLt)


def cublaslt() -> CublasLt | None:
    """The library; None where there is none, or where it is not wanted."""
    return None if os.environ.get(_SWITCH) == "0" else _library()


class LibraryProduct:
    """One product as the plan describes it, with the algorithm that the library likes best.

    `described`: "dtype"; "sizes", rows, columns and depth; "operands", numbers of the arguments
    left, right and out; "across", whether left and right lie across the depth, and
    "apart", how far their rows are; "bias" and "residual", those of what is added, or null;
    "activation";
    "room", where in the workspace its own is.
    """

    def __init__(self, described: Mapping[str, Any]) -> None:
        found = cublaslt()
        if found is None:
            raise ExecutionError(
                "a product of this module is cuBLASLt's, which is not installed here",
                hint="compile the model here, or with GLASSHOUSE_CUBLASLT=0",
            )
        self._lt = found
        self.lock = nullcontext()
        self._described = described
        rows, columns, depth = described["sizes"]
        kind = _TYPES[described["dtype"]]
        sums = (_COMPUTE_FLOAT64, _FLOAT64) if kind == _FLOAT64 else (_COMPUTE_FLOAT32, _FLOAT32)
        self._product = found.made("cublasLtMatmulDescCreate", *sums)
        left_across, right_across = described["across"]
        self._set(_TRANSPOSE_FIRST, ctypes.c_int(not right_across))
        self._set(_TRANSPOSE_SECOND, ctypes.c_int(left_across))
        flags = ACTIVATIONS[described["activation"]]
        flags |= _ADDS_BIAS if described["bias"] is not None else 0
        self._set(_EPILOGUE, ctypes.c_int(flags or 1))
        first = (columns, depth) if right_across else (depth, columns)
        second = (rows, depth) if left_across else (depth, rows)
        left_apart, right_apart = described["apart"]
        shapes = ((*first, right_apart), (*second, left_apart), (columns, rows, columns))
        self._layouts = [found.made("cublasLtMatrixLayoutCreate", kind, *shape) for shape in shapes]
        weakref.finalize(self, _freed, found, self._product, self._layouts).atexit = False
        self._found = self._chosen()
        number = ctypes.c_double if kind == _FLOAT64 else ctypes.c_float
        self._one = number(1.0)
        self._residual = number(0.0 if described["residual"] is None else 1.0)

    def _set(self, attribute: int, value: Any) -> None:
        size = ctypes.sizeof(value)
        self._lt.call(
            "cublasLtMatmulDescSetAttribute", self._product, attribute, ctypes.byref(value), size
        )

    def _chosen(self) -> _Found:
        lt, answer, count = self._lt, _Found(), ctypes.c_int()
        preference = lt.made("cublasLtMatmulPreferenceCreate")
        limits = (
            (_ROOM, ctypes.c_uint64(WORKSPACE)), (_REDUCTIONS, ctypes.c_uint32(_AS_COMPUTED)),
            *((which, ctypes.c_uint32(_ALIGNMENT)) for which in _ALIGNED),
        )  # fmt: skip
        for attribute, value in limits:
            lt.call(
                "cublasLtMatmulPreferenceSetAttribute", preference, attribute,
                ctypes.byref(value), ctypes.sizeof(value),
            )  # fmt: skip
        left, right, out = self._layouts
        lt.call(
            "cublasLtMatmulAlgoGetHeuristic", lt.handle, self._product, left, right, out, out,
            preference, 1, ctypes.byref(answer), ctypes.byref(count),
        )  # fmt: skip
        lt.call("cublasLtMatmulPreferenceDestroy", preference)
        if not count.value or answer.status:
            raise LibraryRefused("cuBLASLt has no algorithm for a product")
        return answer

    def steps(self, arguments: int, stream: int) -> list[Step]:
        """The product in a stream."""
        given, lt = self._described, self._lt

        def argument(number: int) -> At:
            return At(arguments + 8 * number)

        left, right, out = map(argument, given["operands"])
        added = out if given["residual"] is None else argument(given["residual"])
        room = At(arguments, given["room"], ROOM_ALIGNED)
        first, second, result = self._layouts
        one, residual, algorithm = map(
            ctypes.addressof, (self._one, self._residual, self._found.algorithm)
        )
        product = lt.prepared(
            "cublasLtMatmul", lt.handle, self._product, one, right, first, left, second, residual,
            added, result, out, result, algorithm, room, WORKSPACE, At(stream),
            keeps=self,
        )  # fmt: skip
        if given["bias"] is None:
            return [product]
        bias = arguments + 8 * given["bias"]
        set_bias = "cublasLtMatmulDescSetAttribute"
        return [lt.prepared(set_bias, self._product, _BIAS, bias, 8), product]


def _freed(lt: CublasLt, product: int, layouts: Sequence[int]) -> None:
    for layout in layouts:
        lt.call("cublasLtMatrixLayoutDestroy", layout)
    lt.call("cublasLtMatmulDescDestroy", product)
