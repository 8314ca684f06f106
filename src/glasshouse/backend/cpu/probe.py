"""Decides the code that measurements run: each way to convolve, for any size, with a plain result.

A probe takes its sizes as arguments, so one small library, built once for a machine, measures the
convolutions of every model: no candidate has to be compiled with its epilogue first.
"""

from __future__ import annotations

from glasshouse.backend.cpu.emit import Source, kernel_source
from glasshouse.lower.program import Kernel

_PARAMETERS = (
    "(int what, gh::ThreadPool& pool, const int64_t* n, const float* x, const float* w, "
    "void* packed, void* work, float* y, int64_t* bytes)"
)
_SHAPE = (
    "  const gh::ConvShape s{n[0], n[1], n[2], n[3], n[4], n[5], n[6], (int)n[7], (int)n[8], "
    "(int)n[9], (int)n[10], (int)n[11], (int)n[12], (int)n[13], (int)n[14], n[15]};\n"
    "  const long taps = (long)s.kh * s.kw;\n"
)
_STRIDES = "s.cg() * taps, taps, s.kw, 1"
_STORE = "[=](long p, long c, gh::vf a, auto t) { gh::store(y + p * s.OC + c, a, t); }"
_EXPORT = 'extern "C" __attribute__((visibility("default"))) '

SIZES, PACK, RUN = 0, 1, 2
"""What a probe does: tell how many bytes it needs, pack weights, convolve."""


def _taps(way: str) -> tuple[str, str, str, str]:
    return (
        "conv_weight_bytes<gh::DotF32>", "conv_work_bytes<gh::DotF32>",
        "conv_pack_weights<gh::DotF32>", f"conv2d_as<gh::DotF32, gh::ConvWay::{way}>",
    )  # fmt: skip


def _winograd(tile: int) -> tuple[str, str, str, str]:
    kind = f"gh::DotF32, {tile}"
    return (
        f"winograd_weight_bytes<{kind}>", f"winograd_work_bytes<{kind}>",
        f"winograd_pack_weights<{kind}>", f"conv2d_winograd<{kind}>",
    )  # fmt: skip


CONV_WAYS = {
    "winograd2": _winograd(2),
    "winograd4": _winograd(4),
    "direct": _taps("kDirect"),
    "im2col": _taps("kIm2col"),
}
"""Functions of the templates: bytes of weights, bytes of work, packing, convolving."""


def probe_source() -> Source:
    """A library with `glasshouse_probe(way, ...)`; ways count in the order of `CONV_WAYS`."""
    kernels = [_kernel(way) for way in CONV_WAYS]
    arguments = "what, *(gh::ThreadPool*)pool, n, x, w, packed, work, y, bytes"
    cases = "\n".join(
        f"    case {i}: {k.symbol}({arguments}); break;" for i, k in enumerate(kernels)
    )
    main = "\n".join(
        [
            '#include "glasshouse/kernels.h"',
            *(f"void {k.symbol}{_PARAMETERS};" for k in kernels),
            _EXPORT + "void glasshouse_probe(int way, int what, void* pool, const int64_t* n, "
            "const float* x, const float* w, void* packed, void* work, float* y, int64_t* bytes) {",
            f"  switch (way) {{\n{cases}\n  }}\n}}",
            _EXPORT + "void* glasshouse_pool(int threads) { return new gh::ThreadPool(threads); }",
            _EXPORT + "void glasshouse_set_threads(void* pool, int threads) {",
            "  ((gh::ThreadPool*)pool)->set_threads(threads);\n}\n",
        ]
    )
    return Source({k.name: kernel_source(k) for k in kernels}, main)


def _kernel(way: str) -> Kernel:
    weights, work, pack, run = CONV_WAYS[way]
    text = (
        f"{_PARAMETERS} {{\n{_SHAPE}"
        f"  if (what == {SIZES}) bytes[0] = gh::{weights}(s), bytes[1] = gh::{work}(s);\n"
        f"  else if (what == {PACK}) gh::{pack}(pool, w, {_STRIDES}, s, packed);\n"
        f"  else gh::{run}(pool, s, x, packed, work, {_STORE});\n}}"
    )
    return Kernel(f"k_probe_conv_{way}", text, ("Conv",), way)
