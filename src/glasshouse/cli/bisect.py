"""What `glasshouse bisect` does: a failure narrowed to a pass, a rule, an op and a small graph."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from glasshouse.cli.count import positive
from glasshouse.model_argument import HELP as MODEL_HELP

HELP = "narrow a wrong result to a rewrite or a kernel, and to the smallest graph that shows it"


def add_arguments(parser: ArgumentParser) -> None:
    """The model, how strict to be, where to write."""
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument("--target", default="cpu", help="what to compile for (cpu)")
    parser.add_argument(
        "--tolerance", type=positive, default=None, metavar="ERROR",
        help="of passes and results, relative (by element type: 1e-5 for float32)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", default="fault", type=_script, metavar="NAME",
        help="writes NAME.py with NAME.npz, which shows the fault, and NAME.glass (fault)",
    )  # fmt: skip


def _script(text: str) -> Path:
    """Where the script is written. One that is called like a module of Python would be imported in
    its place by whatever runs in that folder, itself included."""
    path = Path(text).with_suffix(".py")
    if path.stem in sys.stdlib_module_names:
        raise ArgumentTypeError(f"{path.stem} is a module of Python, which {path} would hide")
    return path


def run(args: Namespace) -> int:
    """Compile, check, narrow, write; 0 if nothing is wrong, else 1."""
    from glasshouse.checking.bisect import bisect
    from glasshouse.checking.repro import write_script
    from glasshouse.cli.check import subject_of
    from glasshouse.cli.progress import Progress, say
    from glasshouse.ir.printer import print_graph
    from glasshouse.runtime.compiler import compile_optimized
    from glasshouse.show.figures import counted

    subject = subject_of(args.model)
    progress = Progress()
    try:
        module = compile_optimized(subject.graph, args.target, progress, tune=False)
    finally:
        progress.end()
    found = bisect(subject, module, args.target, args.tolerance, say)
    if found.finding is None:
        print(f"{subject.name}: nothing is wrong")
        return 0
    print(found.finding)
    for line in found.rewrites:
        print(f"    rewrite: {line}")
    for name in found.cures:
        print(f"    right without {name}")
    if found.part is None:
        print("no smaller graph shows it")
        return 1
    path = args.output
    write_script(path, found.part, found.finding, args.target, args.tolerance)
    small = compile_optimized(found.part.graph, args.target, tune=False)
    small.recording(*found.part.inputs, count=1).save(path.with_suffix(".glass"))
    left, all_ops = (
        sum(bool(n.inputs) for n in g.nodes) for g in (found.part.graph, subject.graph)
    )
    print(f"smallest graph, {counted(left, 'op')} of {all_ops}:")
    print(print_graph(found.part.graph).rstrip())
    print(f"{path}, {path.with_suffix('.npz')}, {path.with_suffix('.glass')}")
    return 1
