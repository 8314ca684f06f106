"""Compares two checkouts of Glasshouse on the CPU workloads, in turns, in one run.

    python benchmarks/cpu/trees.py ../before . -w mlp_1024x512,bert --threads 2

For each workload both trees compile it in processes of their own, with caches of their own that are
empty at first (cold), then again (warm); then they run in turns. Printed is the time of the second
tree over that of the first: above 1, the second is slower. `--out` keeps the numbers as JSON; with
`--max-slower 1.15` a workload whose median and whose best are both past that ends it with 1.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def work(name: str) -> None:
    """A measured process: compile, say how long it took, then run on request."""
    sys.path.insert(0, str(HERE))
    import torch
    from systems import SYSTEMS
    from workloads import WORKLOADS

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    workload = WORKLOADS[name]
    model, inputs = workload.build()
    begin = time.perf_counter()
    call = SYSTEMS["glasshouse"].build(workload, model, inputs, Path(os.environ["TMPDIR"]))
    call()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"compile_s": time.perf_counter() - begin, "peak_mb": peak}), flush=True)
    for line in sys.stdin:
        end = time.perf_counter() + float(line)
        times: list[float] = []
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        print(json.dumps({"median_s": statistics.median(times), "best_s": min(times)}), flush=True)


class Tree:
    """One checkout, with a process for the workload at hand."""

    def __init__(self, folder: Path, cache: Path, threads: int) -> None:
        self.folder = folder.resolve()
        self.cache = cache
        self.threads = threads
        self.process: subprocess.Popen[str] | None = None

    def start(self, name: str) -> dict[str, Any]:
        env = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "src"),
            "GLASSHOUSE_CACHE": str(self.cache),
            "GLASSHOUSE_THREADS": str(self.threads),
            "OMP_NUM_THREADS": str(self.threads),
            "TMPDIR": str(self.cache),
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work", name],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self._answer(name)

    def run(self, seconds: float) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self._answer("a run")

    def stop(self) -> None:
        if self.process is not None:
            self.process.communicate("")
            self.process = None

    def _answer(self, what: str) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.folder}: the process ended during {what}")
        found: dict[str, Any] = json.loads(line)
        return found


def compare(name: str, trees: tuple[Tree, Tree], rounds: int, seconds: float) -> dict[str, Any]:
    cold = [tree.start(name) for tree in trees]
    for tree in trees:
        tree.stop()
    warm = [tree.start(name) for tree in trees]
    medians: tuple[list[float], list[float]] = ([], [])
    best = [float("inf"), float("inf")]
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            found = trees[side].run(seconds)
            medians[side].append(found["median_s"])
            best[side] = min(best[side], found["best_s"])
    for tree in trees:
        tree.stop()
    typical = [statistics.median(m) for m in medians]
    return {
        "ms": [t * 1e3 for t in typical],
        "ratio": typical[1] / typical[0],
        "ratio_best": best[1] / best[0],
        "noise": [statistics.pstdev(m) / t for m, t in zip(medians, typical, strict=True)],
        "cold_s": [c["compile_s"] for c in cold],
        "warm_s": [w["compile_s"] for w in warm],
        "peak_mb": [w["peak_mb"] for w in warm],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare two checkouts on the CPU workloads.")
    parser.add_argument("trees", nargs="*", type=Path, help="two checkouts: before, after")
    parser.add_argument("-w", "--workloads", default="", help="names, by commas; all without")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each turn")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--max-slower", type=float, default=float("inf"), metavar="RATIO")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work)
        return 0
    if len(args.trees) != 2:
        parser.error("two checkouts are compared")
    sys.path.insert(0, str(HERE))
    from workloads import WORKLOADS

    names = [n for n in args.workloads.split(",") if n] or list(WORKLOADS)
    results: dict[str, Any] = {}
    print(f"{'workload':24} {'before ms':>10} {'after ms':>10} {'ratio':>7} {'best':>7} "
          f"{'cold s':>13} {'warm s':>13} {'peak MB':>11}")  # fmt: skip
    for tree in args.trees:  # as installing does, wherever Python is kept from writing bytecode
        compileall.compile_dir(tree / "src", quiet=2)
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / side for side in ("before", "after")]
        for folder in folders:
            folder.mkdir(mode=0o700)
        pair = (
            Tree(args.trees[0], folders[0], args.threads),
            Tree(args.trees[1], folders[1], args.threads),
        )
        for name in names:
            found = results[name] = compare(name, pair, args.rounds, args.seconds)
            both = {k: "{:.2f} {:.2f}".format(*found[k]) for k in ("cold_s", "warm_s")}
            print(
                f"{name:24} {found['ms'][0]:10.4f} {found['ms'][1]:10.4f} {found['ratio']:7.3f} "
                f"{found['ratio_best']:7.3f} {both['cold_s']:>13} {both['warm_s']:>13} "
                "{:>5.0f} {:>5.0f}".format(*found["peak_mb"]),
                flush=True,
            )
            if args.out:
                args.out.write_text(json.dumps(results, indent=1))
    slower = [n for n, r in results.items() if min(r["ratio"], r["ratio_best"]) > args.max_slower]
    if slower:
        print(f"slower than {args.max_slower} times the first tree: {', '.join(slower)}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
