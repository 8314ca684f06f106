"""How the function of a kernel is compiled: parts that it is linked with, cost, optimisation level.

The figures are seconds of a processor, measured with g++ 12; what matters is that files that are
compiled at the same time take equally long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glasshouse.backend.base import GeneratedSource
from glasshouse.backend.cpu.processor import widens_bfloat16
from glasshouse.ir.dtype import DType, bfloat16, float16, float32, float64, int8, int16

WINOGRAD_PART = {
    (2, float32): "GH_WINOGRAD_F32_2_KERNELS",
    (4, float32): "GH_WINOGRAD_F32_4_KERNELS",
    (2, bfloat16): "GH_WINOGRAD_HALF_2_KERNELS",
    (4, bfloat16): "GH_WINOGRAD_HALF_4_KERNELS",
}
DOT_PART = {
    float32: "GH_F32_KERNELS",
    float16: "GH_F32_KERNELS",
    float64: "GH_F64_KERNELS",
    bfloat16: "GH_BF16_KERNELS",
    int8: "GH_I8_KERNELS",
    int16: "GH_I16_KERNELS",
}
PARTS = (*dict.fromkeys(DOT_PART.values()), *WINOGRAD_PART.values())
"""The parts of `kernels.cpp`: macros of `extern.h`, one for each."""


@dataclass(frozen=True)
class Recipe:
    """Parts of `kernels.cpp` that the code calls (templates may call for more inside: the linker
    tells), seconds to compile, how hard the compiler tries, headers apart (`headers.py`), and the
    seconds that a file takes once for all kernels with these headers."""

    parts: tuple[str, ...] = ()
    seconds: float = 0.08
    level: str = "-O3"
    headers: tuple[str, ...] = ()
    shared_seconds: float = 0.0


def dot_parts(dtype: DType) -> tuple[str, ...]:
    """Of a routine that multiplies elements of a type, which may be widened before."""
    if dtype is bfloat16 and widens_bfloat16():
        return DOT_PART[float32], DOT_PART[bfloat16]
    return (DOT_PART[dtype],)


def with_dot(
    dtype: DType, seconds: float, level: str = "-O3", headers: tuple[str, ...] = ()
) -> Recipe:
    """Of a routine that multiplies elements of a type."""
    return Recipe(dot_parts(dtype), seconds, level, headers)


@dataclass(frozen=True)
class CpuSource(GeneratedSource):
    """Generated code that knows how it is compiled; other code is compiled as usual."""

    recipes: Mapping[str, Recipe] = field(default_factory=dict)
