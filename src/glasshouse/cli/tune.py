"""What `glasshouse tune` does: models are measured and built ahead, here or on a Ray cluster."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from glasshouse.cli.count import at_least
from glasshouse.model_argument import HELP as MODEL_HELP

HELP = "measure and build a set of models ahead, on this machine or on a Ray cluster"


def add_arguments(parser: ArgumentParser) -> None:
    """The models, and where the work is done."""
    parser.add_argument("models", nargs="+", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--ray", metavar="ADDRESS", help='of a Ray cluster; "auto": this machine\'s'
    )
    parser.add_argument(
        "--jobs", type=at_least(1), metavar="N", help="builds at a time (half the processors)"
    )
    parser.add_argument(
        "--precision", action="append", metavar="TYPE",
        help="of products: float32, bf16, f16; several times for several",
    )  # fmt: skip
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="measure small layers, too (tune=True)")
    which.add_argument("--none", action="store_true", help="measure nothing (tune=False)")
    parser.add_argument(
        "--tries", type=at_least(1), default=4, help="of a task whose process dies (4)"
    )


def run(args: Namespace) -> int:
    """Do all of it; 2 where a model failed, after all others were done."""
    from glasshouse.cli.progress import say
    from glasshouse.distributed import compile

    def progress(done: int, total: int, name: str) -> None:
        say(f"{done}/{total}  {name}")

    tune = True if args.all else False if args.none else None
    try:
        reports = compile(
            args.models, ray=args.ray, jobs=args.jobs, precisions=args.precision or ("",),
            tune=tune, tries=args.tries, progress=progress,
        )  # fmt: skip
    except KeyboardInterrupt:
        say("stopped; the same command goes on where this one was")
        raise
    for r in reports:
        what = f"{r.model} {r.precision}".strip()
        if r.error:
            say(f"glasshouse tune: {what}: {r.error}")
            continue
        measured = f", {r.measured} problems measured" if r.measured else ""
        unsure = f", {r.unsure} not (the machine was busy)" if r.unsure else ""
        known = ", all of it known" if r.known else ""
        print(f"{what}: {r.nodes} nodes, {r.kernels} kernels{measured}{unsure}{known}")
    return 2 if any(r.error for r in reports) else 0
