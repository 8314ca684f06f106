"""Compare compiled models with PyTorch over the zoo: `python -m benchmarks.zoo [WORD...]`.

All systems in turns in one process a model; the median of the ratios eager over each: above 1 is
faster than PyTorch. Processor time decides, wall time stands in the file. On a busy machine only
ratios mean something; the load is printed. A model that fails or runs out of time counts as slower.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

BAR = 0.97
"""A model below this part of eager's speed is listed with its longest kernels."""


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("words", nargs="*", help="words that a model's name contains (any of them)")
    add("--exact", action="store_true", help="the words are whole names, in this order")
    add("--systems", default="eager,glasshouse", help="the first one is what others are held to")
    add("--training", action=argparse.BooleanOptionalAction, help="only training steps, or none")
    add("--rounds", type=int, default=7)
    add("--threads", type=int, default=1)
    add("--budget", type=float, default=180, help="seconds of wall time that a model may take")
    add("--file", type=Path, help="results; those that it has are not measured again")
    add("--list", action="store_true", help="only name the models")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each model, then how the ratios are distributed."""
    options = _options(arguments)
    os.environ["OMP_NUM_THREADS"] = os.environ["GLASSHOUSE_THREADS"] = str(options.threads)
    import torch
    from benchmarks.zoo.models import rows

    torch.set_num_threads(options.threads)
    known = rows()
    named = (
        [w for w in options.words if w in known]
        if options.exact
        else [n for n in known if not options.words or any(w in n for w in options.words)]
    )
    wanted = [n for n in named if options.training in (None, known[n].training)]
    if options.list:
        print("\n".join(wanted))
        return
    systems = options.systems.split(",")
    print(f"load {os.getloadavg()[0]:.1f}; processor time, threads: {options.threads}")
    print(f"{'model':34}{systems[0] + ' ms':>10}" + "".join(f"{s:>12}" for s in systems[1:]))
    done = _read(options.file)
    _import_what_rows_import()
    rows = []
    for name in wanted:
        row = done.get(name) or _apart(name, systems, options)
        rows.append(row)
        if options.file and name not in done:
            with options.file.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(_line(row, systems), flush=True)
    for system in systems[1:]:
        _distribution(rows, system)


def _import_what_rows_import() -> None:
    """Once, for the processes of all rows: tracing and Hugging Face take each of them 6 s of
    processor time otherwise, more than most models take to compile."""
    import torch

    import glasshouse as gh

    with suppress(ImportError):
        import transformers.modeling_utils  # noqa: F401
    gh.optimize(gh.trace(torch.nn.Linear(1, 1).eval(), torch.zeros(1, 1)))


def _read(file: Path | None) -> dict[str, dict[str, Any]]:
    if file is None or not file.exists():
        return {}
    rows = (json.loads(line) for line in file.read_text().splitlines())
    return {row["name"]: row for row in rows}


def _apart(name: str, systems: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """The row, measured in a process of its own that is ended when its time is over."""
    context = multiprocessing.get_context("fork")  # what is imported is there at once
    near, far = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(name, systems, options.rounds, far))
    child.start()
    far.close()
    try:
        found: dict[str, Any] = near.recv() if near.poll(options.budget) else _failed(name, "time")
    except EOFError:
        found = _failed(name, "ended by itself")
    child.kill()
    child.join()
    return found


def _child(name: str, systems: Sequence[str], rounds: int, out: Connection) -> None:
    from benchmarks.zoo.measure import measured

    warnings.simplefilter("ignore")
    try:
        out.send(measured(name, systems, rounds))
    except Exception as error:
        out.send(_failed(name, repr(error)[:200]))


def _failed(name: str, why: str) -> dict[str, Any]:
    return {"name": name, "ms": {}, "wall": {}, "ratio": {}, "error": {"glasshouse": why}}


def _line(row: dict[str, Any], systems: Sequence[str]) -> str:
    first = row["ms"].get(systems[0], float("nan"))
    return f"{row['name']:34}{first:10.3f}" + "".join(_cells(row, systems[1:]))


def _cells(row: dict[str, Any], systems: Sequence[str]) -> Iterator[str]:
    for system in systems:
        ratio, error = row["ratio"].get(system), row["error"].get(system)
        wrong = isinstance(error, float) and error > 0.05
        yield f"{'-':>12}" if ratio is None else f"{ratio:>11.2f}{'!' if wrong else ' '}"
    said = [row["error"].get(s) for s in systems]
    yield "".join(f"  {s}" for s in said if isinstance(s, str))


def _distribution(rows: Sequence[dict[str, Any]], system: str) -> None:
    ratios = [r["ratio"][system] for r in rows if system in r["ratio"]]
    if not ratios:
        return
    quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(
        f"\n{system}: {len(ratios)} of {len(rows)} models, median {statistics.median(ratios):.2f} "
        f"(middle half {quarters[0]:.2f} to {quarters[2]:.2f}), geometric mean "
        f"{statistics.geometric_mean(ratios):.2f}, below {BAR}: {sum(r < BAR for r in ratios)}"
    )
    for row in sorted(rows, key=lambda r: float(r["ratio"].get(system, 0))):
        ratio = row["ratio"].get(system, 0.0)
        if ratio < BAR:
            longest = ", ".join(f"{n} {ms}" for ms, n in row.get("kernels", []))
            print(f"  {ratio:5.2f}  {row['name']:34}{longest}")


if __name__ == "__main__":
    main()
