"""The code that measurements run: each variant of convolutions and products, for any size, with a
plain result.

A probe takes its sizes as arguments, so one small library, built once for a machine, measures the
layers of every model: no candidate has to be compiled with its epilogue first.
"""

from __future__ import annotations

from dataclasses import replace

from glasshouse.backend.base import GeneratedSource
from glasshouse.backend.cpu import blocking
from glasshouse.backend.cpu.conv import IN_FLOAT32, WINOGRAD_TILE
from glasshouse.backend.cpu.emit import kernel_source
from glasshouse.backend.cpu.recipe import DOT_PART, WINOGRAD_PART, CpuSource, Recipe, with_dot
from glasshouse.backend.cpu.render import KernelFunction
from glasshouse.backend.cpu.routine import dot_kind
from glasshouse.backend.cxx.words import C_TYPE
from glasshouse.ir.dtype import as_dtype, float32

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


Functions = tuple[str, str, str, str]
"""Of the templates: bytes of weights, bytes of work, packing, convolving."""


def _taps(kind: str, variant: str) -> Functions:
    return (
        f"conv_weight_bytes<{kind}>", f"conv_work_bytes<{kind}>", f"conv_pack_weights<{kind}>",
        f"conv2d_as<{kind}, gh::ConvWay::{variant}>",
    )  # fmt: skip


def _winograd(tile: int, ctype: str) -> Functions:
    kind = f"gh::DotF32, {tile}"
    return (
        f"winograd_weight_bytes<{kind}>", f"winograd_work_bytes<{kind}>",
        f"winograd_pack_weights<{kind}>", f"conv2d_winograd<{kind}, {ctype}>",
    )  # fmt: skip


def conv_variants(dtype: str) -> dict[str, Functions]:
    """Every variant of convolution for elements of a type."""
    ctype = C_TYPE[as_dtype(dtype)]
    kind = dot_kind(as_dtype(dtype))
    variants = {
        "winograd2": _winograd(2, ctype),
        "winograd4": _winograd(4, ctype),
        "direct": _taps(kind, "kDirect"),
        "im2col": _taps(kind, "kIm2col"),
    }
    if dtype != "float32":
        variants["direct_float32"] = _taps("gh::DotF32", "kDirect")
    return variants


def probed(op: str, dtype: str) -> tuple[str, ...]:
    """The variants that the probe of an op has, in its order."""
    return tuple(conv_variants(dtype)) if op == "conv" else blocking.names(as_dtype(dtype))


def probe_source(op: str, dtype: str) -> GeneratedSource:
    """A library with `glasshouse_probe(variant, ...)`, by place in `probed`."""
    ctype = C_TYPE[as_dtype(dtype)]
    if op == "conv":
        kernels = [_kernel(name, dtype, with_) for name, with_ in conv_variants(dtype).items()]
    else:
        kernels = [_product(name, dtype) for name in blocking.names(as_dtype(dtype))]
    data = f"const {ctype}* x, const {ctype}* w, void* packed, void* work, float* y, int64_t* bytes"
    arguments = "what, *(gh::ThreadPool*)pool, n, x, w, packed, work, y, bytes"
    cases = "\n".join(
        f"    case {i}: {k.symbol}({arguments}); break;" for i, k in enumerate(kernels)
    )
    main = "\n".join(
        [
            '#include "glasshouse/kernels.h"',
            *(f"void {k.symbol}{_parameters(ctype)};" for k in kernels),
            _EXPORT + "void glasshouse_probe(",
            f"    int variant, int what, void* pool, const int64_t* n, {data}) {{",
            f"  switch (variant) {{\n{cases}\n  }}\n}}",
            _EXPORT + "void* glasshouse_pool(int threads) { return new gh::ThreadPool(threads); }",
        ]
    )
    texts = {k.name: kernel_source(k) for k in kernels}
    return CpuSource(texts, main + "\n", recipes={k.name: k.recipe for k in kernels})


def _parameters(ctype: str) -> str:
    return (
        f"(int what, gh::ThreadPool& pool, const int64_t* n, const {ctype}* x, const {ctype}* w, "
        "void* packed, void* work, float* y, int64_t* bytes)"
    )


def _kernel(variant: str, dtype: str, functions: Functions) -> KernelFunction:
    weights, work, pack, run = functions
    parameters = _parameters(C_TYPE[as_dtype(dtype)])
    text = (
        f"{parameters} {{\n{_SHAPE}"
        f"  if (what == {SIZES}) bytes[0] = gh::{weights}(s), bytes[1] = gh::{work}(s);\n"
        f"  else if (what == {PACK}) gh::{pack}(pool, w, {_STRIDES}, s, packed);\n"
        f"  else gh::{run}(pool, s, x, packed, work, {_STORE});\n}}"
    )
    return KernelFunction(
        f"k_probe_conv_{variant}", ("Conv",), parameters, text, (), _recipe(variant, dtype)
    )


def _product(variant: str, dtype: str) -> KernelFunction:
    """Sizes are rows, columns, depth; the weight is [depth, columns]."""
    kind = dot_kind(as_dtype(dtype), blocking.on_tiles(variant))
    ctype = C_TYPE[as_dtype(dtype)]
    parameters = _parameters(ctype)
    rows = blocking.first_operand(ctype, "x, n[2]", variant)
    store = "[=](long r, long c, gh::vf a, auto t) { gh::store(y + r * n[1] + c, a, t); }"
    text = (
        f"{parameters} {{\n  (void)work;\n"
        f"  if (what == {SIZES}) bytes[0] = gh::packed_b_bytes<{kind}>(n[2], n[1]), bytes[1] = 0;\n"
        f"  else if (what == {PACK}) "
        f"gh::pack_b_parallel<{kind}>(pool, w, n[1], 1, n[2], n[1], packed);\n"
        f"  else gh::gemm<{kind}>(pool, n[0], n[1], n[2], {rows}, packed, {store});\n}}"
    )
    recipe = replace(with_dot(as_dtype(dtype), 0.4, "-O2"), headers=blocking.headers(variant))
    name = f"k_probe_matmul_{variant}"
    return KernelFunction(name, ("Matmul",), parameters, text, (), recipe)


def _recipe(variant: str, dtype: str) -> Recipe:
    if variant in WINOGRAD_TILE:
        part = WINOGRAD_PART[WINOGRAD_TILE[variant], as_dtype(dtype)]
        return Recipe((DOT_PART[float32], part), 0.4)
    used = float32 if variant in IN_FLOAT32 else as_dtype(dtype)
    return with_dot(used, 0.4, "-O2")
