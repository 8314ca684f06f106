"""The fuzz driver: runs the campaigns of this folder for the minutes given, and sums up.

    python tests/fuzz/run.py --minutes 10
    python tests/fuzz/run.py --minutes 5 --seed 7 process_stress mutated_files

Each campaign gets an equal share of the time and a process of its own. A process that crashes,
hangs past its time or takes more memory than allowed is a finding like any other. Exit code 1 tells
that something was found; logs stay in build/fuzz.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib.util
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "tools")]

from fuzz.report import Report  # noqa: E402  (the path comes first)

TAIL = 3000  # characters of a dead campaign's log that are shown
MEMORY = 6.0  # gigabytes


@dataclass(frozen=True)
class Finding:
    """One kind of fault, with the first way to see it again."""

    title: str
    detail: str
    reproduce: str
    times: int = 1


@dataclass(frozen=True)
class Outcome:
    """What one campaign did with its time."""

    name: str
    cases: int
    seconds: float
    findings: tuple[Finding, ...]


def campaigns(folder: Path) -> list[str]:
    """The names of the files that hold campaigns: those with a line `NAME = ...`."""
    files = sorted(f for f in folder.glob("*.py") if not f.name.startswith("test_"))
    return [f.stem for f in files if re.search(r"^NAME\b", f.read_text(), re.MULTILINE)]


def load(folder: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fuzz.{name}", folder / f"{name}.py")
    assert spec is not None  # it was listed
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for their module
    spec.loader.exec_module(module)
    return module


def run_here(folder: Path, name: str, seed: int, seconds: float, out: Path) -> int:
    """One campaign in this process; anything that it raises is a finding."""
    faulthandler.enable(all_threads=True)
    until = time.monotonic() + seconds
    report = Report(out)
    try:
        load(folder, name).run(seed, until, report)
    except Exception as error:
        told = traceback.format_exc()
        report.found(f"the campaign raised {type(error).__name__}", told, "")
        return 1
    return 0


def run_apart(
    folder: Path, name: str, seed: int, seconds: float, grace: float, memory: float, out: Path
) -> Outcome:
    """One campaign in a process group of its own, which is ended whatever it does."""
    out.mkdir(parents=True, exist_ok=True)
    for old in ("findings.jsonl", "case.json", "log"):
        (out / old).unlink(missing_ok=True)
    again = [sys.executable, str(HERE / "run.py"), "--folder", str(folder), "--seed", str(seed)]
    again += ["--minutes", f"{seconds / 60:.4g}", name]
    command = [*again, "--inside", str(out)]
    begin = time.monotonic()
    with (out / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        ended = _watch(process, begin + seconds + grace, memory)
    took = time.monotonic() - begin
    cases, what = _last_case(out)
    found = _read_findings(out)
    shown = shlex.join(again)
    if ended or process.returncode not in (0, 1):
        why = ended or f"the campaign ended with {_ending(process.returncode)}"
        tail = (out / "log").read_text(errors="replace")[-TAIL:]
        found.append(Finding(why, f"case {cases}: {what}\n{tail}", what or shown))
    repeated = (Finding(f.title, f.detail, f.reproduce or shown, f.times) for f in found)
    return Outcome(name, cases, took, tuple(repeated))


def _watch(process: subprocess.Popen[bytes], deadline: float, memory: float) -> str:
    """Wait; what is to be said if it had to be ended."""
    why = ""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
            break
        used = _resident_gigabytes(process.pid)
        if used > memory:
            why = f"the campaign takes more than {memory:g} GB"
        elif time.monotonic() > deadline:
            why = "the campaign hangs"
        if why:
            process.send_signal(signal.SIGABRT)  # faulthandler writes where every thread is
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10.0)
            break
    with contextlib.suppress(ProcessLookupError):  # children that it left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return why


def _resident_gigabytes(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):  # it has just ended, or this is not Linux
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**30


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _last_case(out: Path) -> tuple[int, str]:
    try:
        note = json.loads((out / "case.json").read_text())
    except (OSError, ValueError):
        return 0, ""
    return int(note["cases"]), str(note["what"])


def _read_findings(out: Path) -> list[Finding]:
    """One for each title."""
    path = out / "findings.jsonl"
    rows = [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []
    times = Counter(row["title"] for row in rows)
    first = {row["title"]: row for row in reversed(rows)}
    return [Finding(**first[title], times=count) for title, count in times.items()]


def show(outcomes: list[Outcome], seed: int) -> None:
    """The summary, findings last."""
    print(f"\nseed {seed}")
    for o in outcomes:
        kinds, times = len(o.findings), sum(f.times for f in o.findings)
        print(
            f"{o.name:20} {o.seconds:7.0f} s {o.cases:9} cases {kinds:4} findings ({times} times)"
        )
    for o in outcomes:
        for finding in o.findings:
            print(f"\n[{o.name}] {finding.title} ({finding.times} times)")
            print("  " + finding.detail.strip().replace("\n", "\n  "))
            print(f"  again: {finding.reproduce}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run fuzz campaigns.")
    parser.add_argument("campaigns", nargs="*", help="which; none: all of the folder")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all together")
    parser.add_argument("--seed", type=int, help="none: one drawn at random, and told")
    parser.add_argument("--folder", type=Path, default=HERE, help="where campaigns lie")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="for logs")
    parser.add_argument("--grace", type=float, default=60.0, help="seconds past the end: a hang")
    parser.add_argument("--memory", type=float, default=MEMORY, help="gigabytes: too much")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    known = campaigns(args.folder)
    names = args.campaigns or known
    if unknown := [n for n in names if n not in known]:
        parser.error(f"no campaign {', '.join(unknown)}; there are: {', '.join(known) or 'none'}")
    if args.inside is not None:
        return run_here(args.folder, names[0], args.seed, args.minutes * 60, args.inside)
    seed = secrets.randbelow(2**31) if args.seed is None else args.seed
    end = time.monotonic() + args.minutes * 60
    outcomes: list[Outcome] = []
    print(f"seed {seed}: {', '.join(names)}", flush=True)
    for number, name in enumerate(names):
        share = max(end - time.monotonic(), 1.0) / (len(names) - number)
        outcomes.append(
            run_apart(args.folder, name, seed, share, args.grace, args.memory, args.out / name)
        )
        last = outcomes[-1]
        print(f"{name}: {last.cases} cases, {len(last.findings)} findings", flush=True)
    show(outcomes, seed)
    return int(any(o.findings for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
