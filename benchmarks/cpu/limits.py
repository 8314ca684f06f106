"""Measures what this machine can do now: multiply-adds in registers, PyTorch's matmul, a copy.

The first is the limit that no kernel passes. It is a loop of independent vector FMAs in C++, one a
thread, built with the compiler that builds our kernels; bfloat16 pairs where there are such.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

THREADS = int(os.environ.get("BENCH_THREADS", "2"))
_SOURCE = r"""
#include <immintrin.h>
// The sums must stay in registers, which takes loops that are written out.
#define ALL _Pragma("GCC unroll 12") for (int i = 0; i < 12; ++i)
extern "C" double flops_of_one_pass() {
#ifdef GH_BF16
    return 1e6 * 12 * 64;  // 32 products and 32 sums an instruction
#else
    return 1e6 * 12 * sizeof(VEC) / 4 * 2;
#endif
}
extern "C" float one_pass() {
    VEC a[12];
    ALL a[i] = SET(float(i));
#ifdef GH_BF16
    __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f80), y = x;
    for (int n = 0; n < 1000000; ++n)
        ALL { a[i] = _mm512_dpbf16_ps(a[i], x, y); asm("" : "+v"(a[i])); }
#else
    VEC x = SET(1.0f), y = SET(1e-9f);
    for (int n = 0; n < 1000000; ++n)
        ALL { a[i] = FMA(a[i], x, y); asm("" : "+v"(a[i])); }
#endif
    float sum = 0;
    ALL sum += ((float*)&a[i])[0];
    return sum;
}
"""
_WIDE = ("-DVEC=__m512", "-DSET=_mm512_set1_ps", "-DFMA=_mm512_fmadd_ps")
_NARROW = ("-DVEC=__m256", "-DSET=_mm256_set1_ps", "-DFMA=_mm256_fmadd_ps")


def peak_gflops(*flags: str) -> float:
    """Of all threads together, the best of several passes; 0 where it cannot be built."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "peak.cpp", Path(folder) / "peak.so"
        source.write_text(_SOURCE)
        command = ["g++", "-O2", "-march=native", "-shared", "-fPIC", *flags]
        made = subprocess.run(
            [*command, str(source), "-o", str(library)], capture_output=True, check=False
        )
        if made.returncode != 0:
            return 0.0
        code = ctypes.CDLL(str(library))
        code.flops_of_one_pass.restype = ctypes.c_double
        best = 0.0
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in range(12):
                begin = time.perf_counter()
                list(pool.map(lambda _: code.one_pass(), range(THREADS)))
                took = time.perf_counter() - begin
                best = max(best, THREADS * code.flops_of_one_pass() / took / 1e9)
        return best


def processor_flags() -> set[str]:
    """The instruction sets of this processor, as Linux names them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((x for x in lines if x.startswith("flags")), "").split())


def limits() -> dict[str, float]:
    """GFLOP/s and GB/s, the best of several each."""
    import torch

    torch.set_num_threads(THREADS)

    def best(run: object, count: int = 8) -> float:
        """The least seconds of some runs."""
        assert callable(run)
        times: list[float] = []
        for _ in range(count + 1):
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        return min(times)

    a = torch.randn(2048, 2048)
    # Without instructions for bfloat16 PyTorch multiplies 2048^3 in two minutes.
    size = 2048 if {"avx512_bf16", "amx_bf16"} & processor_flags() else 256
    half = torch.randn(size, size).bfloat16()
    c = torch.empty(2**26)
    d = c.clone()
    wide = "avx512f" in processor_flags()
    vectors = _WIDE if wide else _NARROW
    plain = peak_gflops(*vectors)
    return {
        "peak_gflops": plain,
        "peak_bf16_gflops": peak_gflops(*vectors, "-DGH_BF16") or plain,
        "torch_matmul_gflops": 2 * 2048**3 / best(lambda: a @ a) / 1e9,
        "torch_matmul_bf16_gflops": 2 * size**3 / best(lambda: half @ half) / 1e9,
        "copy_gb_s": 8 * 2**26 / best(lambda: c.copy_(d)) / 1e9,
    }


if __name__ == "__main__":
    import json

    print(json.dumps(limits()))
