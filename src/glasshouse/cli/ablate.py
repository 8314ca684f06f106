"""What `glasshouse ablate` prints: what each pass, rule, or op of a kernel brings, by leaving it
out."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from glasshouse.cli.count import at_least
from glasshouse.model_argument import HELP as MODEL_HELP

if TYPE_CHECKING:
    from glasshouse.checking.ablate import Left
    from glasshouse.checking.inside import KernelShares

HELP = "leave out each pass and rule, or each op of a kernel, in turn: time, error, kernels, bytes"


def add_arguments(parser: ArgumentParser) -> None:
    """The model, and how long to measure."""
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument("--target", default="cpu", help="what to compile for (cpu)")
    parser.add_argument("--runs", type=at_least(1), default=30, help="turns of each variant (30)")
    parser.add_argument("--no-rules", action="store_true", help="passes alone")
    parser.add_argument(
        "--inside", default="", metavar="KERNEL",
        help="leave out the ops of one kernel instead: its name as explain prints it, or a part",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", default="", metavar="FILE", help="keep it in a recording (.glass, .html)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print all of it as JSON (docs/ablate.schema.json)"
    )


def run(args: Namespace) -> int:
    """Compile all variants, time them in turns, print."""
    from glasshouse.checking.ablate import ablate, into_recording
    from glasshouse.cli.progress import say
    from glasshouse.model_argument import read_model

    given = read_model(args.model)
    given.graph.name = given.graph.name or given.name
    if args.inside:
        return _inside(args, given)
    rows, refused, whole = ablate(
        given.graph, given.inputs, args.target, max(1, args.runs), not args.no_rules, say
    )
    if args.output:
        recording = into_recording(whole.recording(*given.inputs), rows)
        if args.output.endswith(".html"):
            from glasshouse.show.html import plot_graph

            plot_graph(recording, args.output)
        else:
            recording.save(args.output)
    if args.json:
        print(json.dumps(to_json(given.name, rows, refused), indent=2))
    else:
        print(describe(given.name, rows, refused), end="")
    return 0


def _inside(args: Namespace, given: Any) -> int:
    """The ops of one kernel."""
    from glasshouse.checking.inside import inside
    from glasshouse.cli.progress import say
    from glasshouse.runtime.compiler import compile_optimized

    module = compile_optimized(given.graph, args.target)
    found = inside(module, args.inside, given.inputs, args.runs, say)
    if args.json:
        print(
            json.dumps({"version": 1, "name": given.name, "inside": inside_json(found)}, indent=2)
        )
    else:
        print(describe_inside(found), end="")
    return 0


def describe_inside(found: KernelShares) -> str:
    """A table of ops, the dearest first."""
    from glasshouse.show.figures import percent, seconds, table

    lines = [["without", "time", "saves", "95 %", "kernels", "from"]]
    for op in found.ops:
        ends = f"{percent(1 - op.left.high)} .. {percent(1 - op.left.low)}"
        sure = not op.left.low <= 1 <= op.left.high
        name = op.op + (" *" if sure else "")
        many = "" if op.kernels == 1 else str(op.kernels)
        lines.append([name, seconds(op.seconds), percent(op.share), ends, many, op.where])
    head = f"{found.kernel} ({found.title}): {seconds(found.seconds)} alone; * saves for sure"
    text = f"{head}\n{table(lines, [1, 2, 4])}\n"
    text += "  what an op alone needs goes with it, so shares need not add up to 100 %\n"
    return text + "".join(f"  cannot be left out: {why}\n" for why in found.refused)


def inside_json(found: KernelShares) -> dict[str, Any]:
    """For scripts: docs/ablate.schema.json."""

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "kernel": found.kernel, "title": found.title, "seconds": found.seconds,
        "ops": [
            {
                "op": op.op, "where": op.where, "seconds": op.seconds, "share": number(op.share),
                "low": number(1 - op.left.high), "high": number(1 - op.left.low),
                "kernels": op.kernels,
            }
            for op in found.ops
        ],
        "refused": found.refused,
    }  # fmt: skip


def describe(name: str, rows: list[Left], refused: list[str]) -> str:
    """A table for a terminal; ratios that hold 1 between their ends are not sure, and what is the
    same code is not timed."""
    from glasshouse.show.figures import seconds, size, table

    lines = [["without", "time", "of all", "95 %", "error", "kernels", "nodes", "moved", "arena",
              "compile"]]  # fmt: skip
    for r in rows:
        share = f"{r.slower.middle:.2f}" if r.slower else "same" if r.same else "1"
        known = r.slower is not None and math.isfinite(r.slower.high)
        ends = f"{r.slower.low:.2f} .. {r.slower.high:.2f}" if r.slower and known else ""
        sure = r.slower is not None and not r.slower.low <= 1 <= r.slower.high
        lines.append([
            (r.name or "(nothing)") + (" *" if sure else ""), seconds(r.seconds), share, ends,
            f"{r.error:.1e}", str(r.kernels), str(r.nodes), size(r.bytes), size(r.arena),
            seconds(r.compile_seconds),
        ])  # fmt: skip
    pairs = next((r.slower.pairs for r in rows if r.slower), 0)
    head = f"{name}: {len(rows) - 1} variants, {pairs} turns; * differs for sure"
    text = f"{head}\n{table(lines, [1, 2, 4, 5, 6, 7, 8, 9])}\n"
    if any(r.same for r in rows):
        text += "  same: the code is that of the whole, so it was not timed\n"
    if any(r.slower and math.isinf(r.slower.high) for r in rows):
        text += f"  {pairs} turns are too few to say what differs for sure: give more --runs\n"
    return text + "".join(f"  cannot be left out: {why}\n" for why in refused)


def to_json(name: str, rows: list[Left], refused: list[str]) -> dict[str, Any]:
    """For scripts: docs/ablate.schema.json."""

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "version": 1,
        "name": name,
        "variants": [
            {
                "without": r.name, "seconds": r.seconds,
                "slower": None if r.slower is None else {
                    "middle": number(r.slower.middle), "low": number(r.slower.low),
                    "high": number(r.slower.high), "pairs": r.slower.pairs,
                },
                "same": r.same, "error": number(r.error), "kernels": r.kernels, "nodes": r.nodes,
                "bytes": r.bytes, "arena": r.arena, "compile_seconds": r.compile_seconds,
            }
            for r in rows
        ],
        "refused": refused,
    }  # fmt: skip
