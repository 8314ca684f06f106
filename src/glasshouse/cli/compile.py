"""What `glasshouse compile` does: a model becomes a folder that runs anywhere alike."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from glasshouse.model_argument import HELP as MODEL_HELP

HELP = "compile a model to a shared library with C header, weights and recording"


def add_arguments(parser: ArgumentParser) -> None:
    """The model and where to write."""
    parser.add_argument("model", metavar="FILE", help=MODEL_HELP)
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write")
    parser.add_argument("--name", default="model", help="of the library and its functions (model)")
    parser.add_argument("--target", default="cpu", help="what to compile for (cpu)")
    parser.add_argument("--precision", default=None, help="of products: float32, bf16, f16")
    parser.add_argument("--no-tune", action="store_true", help="estimate instead of measuring")
    parser.add_argument("--check", action="store_true", help="compare with the reference first")


def run(args: Namespace) -> int:
    """Trace, compile, save, say what was written."""
    import time
    from pathlib import Path

    from glasshouse.cli.page_options import output_file
    from glasshouse.cli.progress import Progress, say
    from glasshouse.errors import FormatError
    from glasshouse.lower.program import Fallback
    from glasshouse.model_argument import read_model
    from glasshouse.runtime.compiler import compile_optimized
    from glasshouse.runtime.saved import check_name
    from glasshouse.show.figures import counted

    check_name(args.name)
    folder = Path(output_file(args.output))
    if folder.exists() and not folder.is_dir():
        raise FormatError(f"{folder}: a file, and a folder is written", hint="name another: -o DIR")
    begin = time.perf_counter()
    given = read_model(args.model)
    say(f"traced {given.name}: {len(given.graph)} nodes")
    progress = Progress()
    try:
        module = compile_optimized(
            given.graph, args.target, progress,
            tune=False if args.no_tune else None, precision=args.precision,
        )  # fmt: skip
    finally:
        progress.end()
    steps = module.program.steps
    kinds = counted(len(module.program.kernels), "different kernel")
    say(f"compiled: {counted(len(steps), 'step')}, {kinds}")
    for step in steps:
        if isinstance(step, Fallback):
            say(f"  {step.node.op.label} runs through Python: {step.why}")
    if args.check and not _equals_reference(given.graph, module, given.inputs):
        return 1
    module.save(folder, args.name)
    print(f"{folder} ({time.perf_counter() - begin:.1f} s)")
    for path in sorted(p for p in folder.iterdir() if p.is_file()):
        print(f"  {path.name:<18} {path.stat().st_size / 1e6:9.2f} MB")
    return 0


def _equals_reference(graph: object, module: object, inputs: object) -> bool:
    from glasshouse.cli.compare_outputs import largest_difference

    difference = largest_difference(graph, module, inputs)
    good = difference < 1e-2
    print(f"largest difference from the reference, relative: {difference:.1e}")
    if not good:
        print("that is too much; nothing was written")
    return good
