"""How compiled models are compared with peers: each in its own process, timed in turns.

    python benchmarks/cpu/run.py [-w NAMES] [-s SYSTEMS] [--seconds 3] [--out results.json]

For each workload every system is built in a fresh process with empty caches, checked against
float64, and kept alive; then all are timed in short blocks in changing order, so that noise meets
all alike. A block during which others used more than 5 % of the processors is measured again, up to
`--retries` times; what stayed noisy is marked with ~ and says little. `--processor-time` measures
that of one thread, which can be done beside other work. A peer whose result is wrong is marked and
never the best; a wrong result of ours fails the command. Names may be beginnings.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import NOISE, OURS, plot, table

HERE = Path(__file__).parent
CORES = os.cpu_count() or 1


class Worker:
    """A process that runs one system."""

    def __init__(self, system: str, workload: str, reference: Path, keep_cache: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bench-"))
        theirs, self._write = os.pipe()
        self._read, ours = os.pipe()
        threads = os.environ.get("BENCH_THREADS", "2")
        env = {
            **os.environ, "OMP_NUM_THREADS": threads, "GLASSHOUSE_THREADS": threads,
            "TMPDIR": str(self.folder), "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"),
        }  # fmt: skip
        if not keep_cache:
            env["GLASSHOUSE_CACHE"] = str(self.folder / "glasshouse")
        self.log = (self.folder / "log").open("w+")
        command = [sys.executable, str(HERE / "worker.py"), system, workload, str(reference)]
        self.process = subprocess.Popen(
            [*command, str(theirs), str(ours)], env=env, pass_fds=(theirs, ours),
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd=self.folder,
        )  # fmt: skip
        os.close(theirs)
        os.close(ours)
        self._requests = os.fdopen(self._write, "w", buffering=1)
        self._answers = os.fdopen(self._read)

    def ask(self, do: str, limit: float = 900, **more: Any) -> dict[str, Any]:
        try:
            self._requests.write(json.dumps({"do": do, **more}) + "\n")
        except BrokenPipeError:
            return {"failed": "the process has died"}
        if not select.select([self._answers], [], [], limit)[0]:
            return {"failed": f"no answer within {limit:.0f} s"}
        line = self._answers.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.log.seek(0)
        return {"failed": f"the process has died: {self.log.read()[-500:]}"}

    def stop(self) -> None:
        self._requests.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._answers.close()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def busy_seconds() -> float:
    """Processor time that all of the machine has used, and what its host took away."""
    ticks = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(ticks[:3]) + sum(ticks[5:8])) / os.sysconf("SC_CLK_TCK")


def measured(worker: Worker, seconds: float, retries: int, processor: bool) -> dict[str, Any]:
    """The quietest of a few blocks, with the share of the processors that others used; of
    processor time one block, which others cannot lengthen by much."""
    best: dict[str, Any] = {}
    for _ in range(retries + 1):
        busy, begin = busy_seconds(), time.perf_counter()
        answer = worker.ask("block", seconds=seconds, processor=processor)
        if "failed" in answer:
            return answer
        if processor:
            return {**answer, "noise": 0.0}
        passed = time.perf_counter() - begin
        others = max(busy_seconds() - busy - answer["cpu_s"], 0.0) / passed / CORES
        if not best or others < best["noise"]:
            best = {**answer, "noise": others}
        if others < NOISE:
            break
    return best


def run_workload(
    name: str, systems: list[str], tolerance: float, args: argparse.Namespace
) -> dict[str, Any]:
    """What was measured of each system; one that is further off than `tolerance` is wrong."""
    results: dict[str, Any] = {}
    live: dict[str, Worker] = {}
    samples: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        reference = Path(folder) / "reference.npy"
        try:
            for system in ["reference", *systems]:
                worker = Worker(system, name, reference, args.keep_cache)
                answer = worker.ask("build")
                if system == "reference" or "failed" in answer:
                    worker.stop()
                if "failed" in answer:
                    print(f"  {system}: {answer['failed'].strip().splitlines()[-1][:150]}")
                if system != "reference":
                    results[system] = answer
                    if "failed" not in answer:
                        answer["wrong"] = not answer["error"] <= tolerance  # so is NaN
                        live[system], samples[system] = worker, []
                        first = answer["compile_s"]
                        print(f"  {system}: first result after {first:.1f} s", flush=True)
            for number in range(args.rounds):
                order = list(live)
                random.Random(number).shuffle(order)
                for system in order:
                    seconds = args.seconds / args.rounds
                    answer = measured(live[system], seconds, args.retries, args.processor_time)
                    if "failed" in answer:
                        results[system] = answer
                        live.pop(system).stop()
                    else:
                        samples[system].append(answer)
            for system, worker in live.items():
                results[system] |= {**worker.ask("memory"), **summary(samples[system])}
        finally:
            for worker in live.values():
                worker.stop()
    return results


def summary(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    all_of = sorted(t for b in blocks for t in b["ms"])
    return {
        "median_ms": statistics.median(all_of),
        "p10_ms": all_of[len(all_of) // 10],
        "p90_ms": all_of[len(all_of) * 9 // 10],
        "samples": len(all_of),
        "noise": statistics.median(b["noise"] for b in blocks),
    }


def machine() -> dict[str, float]:
    """What this machine reaches now, measured in a process of its own."""
    env = {**os.environ, "OMP_NUM_THREADS": os.environ.get("BENCH_THREADS", "2")}
    command = [sys.executable, str(HERE / "limits.py")]
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def chosen(names: str, known: list[str]) -> list[str]:
    if names == "all":
        return known
    parts = names.split(",")
    exact = [n for n in known if n in parts]
    found = exact or [n for n in known if any(n.startswith(p) for p in parts)]
    if not found:
        raise SystemExit(f"none of {names}; there are: {', '.join(known)}")
    return found


def main() -> None:
    sys.path.insert(0, str(HERE))
    from systems import SYSTEMS
    from workloads import WORKLOADS

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-w", "--workloads", default="all")
    parser.add_argument("-s", "--systems", default="all")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing a system")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--retries", type=int, default=4, help="of a noisy block")
    parser.add_argument(
        "--processor-time", action="store_true", help="of one thread: beside other work"
    )
    parser.add_argument("--keep-cache", action="store_true", help="first results are then warm")
    parser.add_argument("--out", help="also write all of it as JSON, and a plot beside as SVG")
    args = parser.parse_args()
    if args.processor_time:
        os.environ["BENCH_THREADS"] = "1"
    workloads = chosen(args.workloads, list(WORKLOADS))
    systems = [s for s in chosen(args.systems, list(SYSTEMS)) if SYSTEMS[s].installed]
    limits = machine()
    print("this machine now: " + ", ".join(f"{k} {v:.0f}" for k, v in limits.items()))
    results: dict[str, dict[str, Any]] = {}
    flops: dict[str, float] = {}
    for name in workloads:
        print(name, flush=True)
        able = [s for s in systems if SYSTEMS[s].takes(WORKLOADS[name])]
        flops[name] = WORKLOADS[name].flops()
        results[name] = run_workload(name, able, WORKLOADS[name].tolerance, args)
        if args.out:
            Path(args.out).parent.mkdir(parents=True, exist_ok=True)
            data = {"machine": limits, "flops": flops, "results": results}
            Path(args.out).write_text(json.dumps(data, indent=1))
            Path(args.out).with_suffix(".svg").write_text(plot(results))
    print("\n" + table(results, flops, limits))
    for name, rows in results.items():
        for system, row in rows.items():
            if row.get("wrong"):
                print(f"wrong: {system} on {name}, error {row['error']:.1e}")
    ours = [rows.get(OURS, {}) for rows in results.values()]
    if any(row.get("wrong") or "failed" in row for row in ours):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
