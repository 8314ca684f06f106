"""Times the kernel templates against PyTorch on the models' shapes, in turns in one process.

    python benchmarks/kernels/run.py [gemm] [gemm_bf16] [conv] [attention] [--threads 2]

Each line: median time of both, ours in GFLOP/s (best in brackets), PyTorch's time over ours (best
over best in brackets), largest error against float64 over the largest magnitude. One thread is
timed by the processor's clock, so that other work beside it does not count; several by the wall's.
Weights are packed beforehand, as the compiler does; PyTorch gets its best of contiguous and
channels-last.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from glasshouse.backend.cpu.processor import has_tiles

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "src/glasshouse/backend/cpu/include"
FLAGS = [
    "-std=c++17", "-O3", "-march=native", "-mprefer-vector-width=512", "-fno-math-errno",
    "-fno-trapping-math", "-ffp-contract=off", "-fPIC", "-shared", "-pthread", f"-I{INCLUDE}",
    *(["-DGH_AMX"] if has_tiles() else []),
]  # fmt: skip
Run = Callable[[], object]
L = ctypes.c_long


def build() -> ctypes.CDLL:
    """driver.cpp as a library."""
    out = Path(tempfile.mkdtemp()) / "driver.so"
    subprocess.run(["g++", *FLAGS, str(HERE / "driver.cpp"), "-o", str(out)], check=True)
    lib = ctypes.CDLL(str(out))
    lib.pool_new.restype = ctypes.c_void_p
    for name in ("product_bytes", "conv_weight_size", "conv_work_size"):
        getattr(lib, name).restype = L
    return lib


def room(nbytes: int) -> np.ndarray:
    """Zeroed bytes on a page boundary."""
    raw = np.zeros(nbytes + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + nbytes]


def p(a: np.ndarray | torch.Tensor | None) -> ctypes.c_void_p:
    if a is None:
        return ctypes.c_void_p(None)
    return ctypes.c_void_p(a.data_ptr() if isinstance(a, torch.Tensor) else a.ctypes.data)


@dataclass(frozen=True)
class Times:
    """Seconds of one run."""

    median: float
    best: float


def interleaved(runs: dict[str, Run], seconds: float) -> dict[str, Times]:
    """Times of each, in turns of about 5 ms."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    reps = {}
    for name, run in runs.items():
        run()
        start = clock()
        run()
        reps[name] = max(1, int(0.005 / max(clock() - start, 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end or len(times[next(iter(runs))]) < 5:
        for name, run in runs.items():
            time.sleep(0.01)  # the other side's idle threads stop spinning
            run()
            start = clock()
            for _ in range(reps[name]):
                run()
            times[name].append((clock() - start) / reps[name])
    return {name: Times(statistics.median(t), min(t)) for name, t in times.items()}


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    return ((got.double() - want).abs().max() / want.abs().max()).item()


class Bench:
    """One library, one pool."""

    def __init__(self, threads: int, seconds: float) -> None:
        torch.set_num_threads(threads)
        self.lib = build()
        self.pool = ctypes.c_void_p(self.lib.pool_new(threads))
        self.seconds = seconds

    def show(
        self, what: str, flops: float, runs: dict[str, Run], errors: dict[str, float]
    ) -> dict[str, Times]:
        times = interleaved(runs, self.seconds)
        theirs = [t for n, t in times.items() if n.startswith("torch")]
        median, best = min(t.median for t in theirs), min(t.best for t in theirs)
        ours = "  ".join(
            f"{n} {t.median * 1e3:.4f} ms "
            f"{flops / t.median * 1e-9:.0f} ({flops / t.best * 1e-9:.0f}) GFLOP/s "
            f"x{median / t.median:.2f} ({best / t.best:.2f}) err {errors[n]:.0e}"
            for n, t in times.items()
            if not n.startswith("torch")
        )
        print(f"{what:38s} {ours}  | torch {median * 1e3:.4f} ms", flush=True)
        return times

    def gemm(self, m: int, n: int, k: int, bf16: bool = False, act: bool = False) -> None:
        dtype = torch.bfloat16 if bf16 else torch.float32
        a, w, bias = (
            torch.randn(m, k).to(dtype),
            (torch.randn(n, k) / k**0.5).to(dtype),
            torch.randn(n),
        )
        out = torch.empty(m, n, dtype=dtype)
        packed = room(self.lib.product_bytes(int(bf16), L(k), L(n)))
        plain = w.float()  # held: the call gets its address alone
        self.lib.product_pack(self.pool, int(bf16), p(plain), L(k), L(n), p(packed))
        wb = bias.to(dtype)

        def ours() -> None:
            self.lib.product_run(
                self.pool, int(bf16), int(act), L(m), L(n), L(k), p(a), p(packed), p(bias), p(out)
            )

        def theirs() -> torch.Tensor:
            y = F.linear(a, w, wb)
            return F.gelu(y) if act else y

        ours()
        want = F.linear(a.double(), w.double(), bias.double())
        want = F.gelu(want) if act else want
        name = f"{m}x{n}x{k}" + (" bf16" if bf16 else "") + (" gelu" if act else "")
        self.show(
            name, 2.0 * m * n * k, {"ours": ours, "torch": theirs}, {"ours": error(out, want)}
        )

    def conv(
        self,
        c: int,
        h: int,
        oc: int,
        k: int,
        stride: int,
        pad: int,
        ways: list[int],
        bf16: bool = False,
    ) -> float:
        """The best way's time."""
        x, w, bias = (
            torch.randn(1, c, h, h),
            torch.randn(oc, c, k, k) / (c * k * k) ** 0.5,
            torch.randn(oc),
        )
        want = F.relu(F.conv2d(x.double(), w.double(), bias.double(), stride, pad))
        oh = want.shape[2]
        shape = (L * 16)(1, h, h, c, oh, oh, oc, k, k, stride, stride, pad, pad, 1, 1, 1)
        last = x.permute(0, 2, 3, 1).contiguous()
        runs: dict[str, Run] = {}
        errors: dict[str, float] = {}
        for way in ways:
            if way > 1 and (k != 3 or stride != 1):
                continue
            packed = room(self.lib.conv_weight_size(int(bf16), shape, way))
            work = room(self.lib.conv_work_size(int(bf16), shape, way))
            y = torch.empty(1, oh, oh, oc)
            self.lib.conv_pack(self.pool, int(bf16), shape, way, p(w), p(packed))
            given = x if way == 1 else last

            def ours(way=way, given=given, packed=packed, work=work, y=y) -> None:
                self.lib.conv_run(
                    self.pool, int(bf16), shape, way, p(given), p(packed), p(work), p(bias), p(y)
                )

            ours()
            name = {0: "direct", 1: "direct", 2: "F(2,3)", 4: "F(4,3)"}[way]
            runs[name], errors[name] = ours, error(y.permute(0, 3, 1, 2), want)
        dtype = torch.bfloat16 if bf16 else torch.float32
        xt, wt, bt = (t.to(dtype) for t in (x, w, bias))
        xl, wl = (t.to(memory_format=torch.channels_last) for t in (xt, wt))
        runs["torch"] = lambda: F.relu_(F.conv2d(xt, wt, bt, stride, pad))
        runs["torch last"] = lambda: F.relu_(F.conv2d(xl, wl, bt, stride, pad))
        times = self.show(
            f"{c}x{h}x{h} -> {oc} {k}x{k}/{stride}" + (" bf16" if bf16 else ""),
            2.0 * oh * oh * oc * c * k * k,
            runs,
            errors,
        )
        return min(t.median for n, t in times.items() if not n.startswith("torch"))

    def attention(self, heads: int, length: int, dim: int, causal: bool) -> None:
        qkv = torch.randn(1, length, 3 * heads * dim)
        mask = None if causal else torch.randn(1, length)
        out = torch.empty(1, length, heads * dim)
        q, k, v = (
            t.reshape(1, length, heads, dim).transpose(1, 2) for t in qkv.split(heads * dim, -1)
        )
        bias = None if mask is None else mask[:, None, None]

        def ours() -> None:
            self.lib.attention_run(
                self.pool, L(1), L(heads), L(length), L(dim), int(causal), p(qkv), p(mask), p(out)
            )

        ours()

        def merged(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, b: torch.Tensor | None):
            y = F.scaled_dot_product_attention(q, k, v, b, is_causal=causal)
            return y.transpose(1, 2).reshape(1, length, heads * dim)

        want = merged(q.double(), k.double(), v.double(), None if bias is None else bias.double())
        runs = {"ours": ours, "torch": lambda: merged(q, k, v, bias)}
        flops = 4.0 * heads * length * length * dim * (0.5 if causal else 1.0)
        self.show(
            f"attention {heads}x{length}x{dim}" + (" causal" if causal else " mask"),
            flops,
            runs,
            {"ours": error(out, want)},
        )


GEMMS = [
    (512, 512, 512), (1024, 2048, 512), (1024, 512, 2048), (512, 4096, 1024), (512, 1024, 4096),
    (2048, 2048, 2048), (128, 768, 768), (128, 2304, 768), (128, 3072, 768), (128, 768, 3072),
    (256, 50257, 768), (1, 2048, 512), (1, 512, 2048), (1, 4096, 1024), (1, 1024, 4096),
    (4, 2048, 512), (8, 2048, 512),
]  # fmt: skip
# channels, size, output channels, kernel, stride, padding, how often in ResNet-18 and in ResNet-50
CONVS = [
    (3, 224, 64, 7, 2, 3, 1, 1), (64, 56, 64, 3, 1, 1, 4, 3), (64, 56, 128, 3, 2, 1, 1, 0),
    (64, 56, 128, 1, 2, 0, 1, 0), (128, 28, 128, 3, 1, 1, 3, 3), (128, 28, 256, 3, 2, 1, 1, 0),
    (128, 28, 256, 1, 2, 0, 1, 0), (256, 14, 256, 3, 1, 1, 3, 5), (256, 14, 512, 3, 2, 1, 1, 0),
    (256, 14, 512, 1, 2, 0, 1, 0), (512, 7, 512, 3, 1, 1, 3, 2), (64, 56, 64, 1, 1, 0, 0, 1),
    (64, 56, 256, 1, 1, 0, 0, 4), (256, 56, 64, 1, 1, 0, 0, 2), (256, 56, 128, 1, 1, 0, 0, 1),
    (128, 56, 128, 3, 2, 1, 0, 1), (256, 56, 512, 1, 2, 0, 0, 1), (128, 28, 512, 1, 1, 0, 0, 4),
    (512, 28, 128, 1, 1, 0, 0, 3), (512, 28, 256, 1, 1, 0, 0, 1), (256, 28, 256, 3, 2, 1, 0, 1),
    (512, 28, 1024, 1, 2, 0, 0, 1), (256, 14, 1024, 1, 1, 0, 0, 6),
    (1024, 14, 256, 1, 1, 0, 0, 5), (1024, 14, 512, 1, 1, 0, 0, 1),
    (512, 14, 512, 3, 2, 1, 0, 1), (1024, 14, 2048, 1, 2, 0, 0, 1),
    (512, 7, 2048, 1, 1, 0, 0, 3), (2048, 7, 512, 1, 1, 0, 0, 2),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", nargs="*", default=["gemm", "conv", "attention"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--bf16", action="store_true", help="convolutions with bf16 products too")
    args = parser.parse_args()
    torch.manual_seed(0)
    bench = Bench(args.threads, args.seconds)
    with torch.inference_mode():
        if "gemm" in args.what:
            for m, n, k in GEMMS:
                bench.gemm(m, n, k)
            bench.gemm(1024, 2048, 512, act=True)
        if {"gemm", "gemm_bf16"} & set(args.what):
            for m, n, k in [*GEMMS[:5], *GEMMS[6:10], *GEMMS[11:15]]:
                bench.gemm(m, n, k, bf16=True)
        if "conv" in args.what:
            for bf16 in [False, True] if args.bf16 else [False]:
                totals = [0.0, 0.0]
                for c, h, oc, k, stride, pad, in18, in50 in CONVS:
                    if bf16 and c == 3:
                        continue
                    best = bench.conv(c, h, oc, k, stride, pad, [1] if c == 3 else [0, 2, 4], bf16)
                    totals = [totals[0] + in18 * best, totals[1] + in50 * best]
                print(
                    f"convolutions of ResNet-18: {totals[0] * 1e3:.2f} ms, "
                    f"of ResNet-50: {totals[1] * 1e3:.2f} ms"
                )
        if "attention" in args.what:
            bench.attention(12, 128, 64, causal=False)
            bench.attention(12, 256, 64, causal=True)
            bench.attention(12, 1024, 64, causal=True)


if __name__ == "__main__":
    main()
