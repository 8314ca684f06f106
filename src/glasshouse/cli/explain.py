"""What `glasshouse explain` prints: the report of a recording, or of a model.

A model (`path.py:function`, .onnx, .pt2) is compiled and run, so that the report has kernels by
time and their errors.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Any

from glasshouse.cli.count import at_least

HELP = "print what a recording says: passes, kernels by time, fusions and why not, accuracy"


def add_arguments(parser: ArgumentParser) -> None:
    """What to read, how much to print."""
    parser.add_argument(
        "file", metavar="FILE", help="a recording, any file that view opens, or path.py:function"
    )
    parser.add_argument("--top", type=at_least(1), default=15, help="lines of each table (15)")
    parser.add_argument(
        "--runs", type=at_least(1), default=10, help="of the model, for its times (10)"
    )
    parser.add_argument("--target", default="cpu", help="what to compile a model for (cpu)")
    parser.add_argument(
        "--backend", default="glasshouse",
        choices=("glasshouse", "inductor", "onnxruntime", "openvino"),
        help="which compiler to look at (glasshouse)",
    )  # fmt: skip
    parser.add_argument("--precision", default=None, help="of products: float32, bf16, f16")
    parser.add_argument("-o", "--output", default="", metavar="FILE", help="keep the recording")
    parser.add_argument("--no-compile", action="store_true", help="only the ops of a model")
    parser.add_argument(
        "--json", action="store_true", help="print all of it as JSON (docs/explain.schema.json)"
    )


def run(args: Namespace) -> int:
    """Read and print."""
    from glasshouse.cli.measured import measured
    from glasshouse.model_argument import is_function, shown
    from glasshouse.show.report import report
    from glasshouse.show.report_json import report_json
    from glasshouse.show.subject import recording_of

    is_model = is_function(args.file) or args.file.endswith((".onnx", ".pt2"))
    if args.backend != "glasshouse":
        recording = _by_peer(args)
    elif is_model and not args.no_compile:
        recording = recording_of(measured(args.file, args.target, args.precision, args.runs))
    else:
        recording = recording_of(shown(args.file))
    if args.output:
        recording.save(args.output)
    if args.json:
        print(json.dumps(report_json(recording), indent=2))
    else:
        print(report(recording, max(1, args.top)), end="")
    return 0


def _by_peer(args: Namespace) -> Any:
    """As `_of_peer`; what the other compiler cannot do is reported in one line, in its words."""
    from glasshouse.errors import GlasshouseError, Unsupported

    try:
        return _of_peer(args)
    except GlasshouseError:
        raise
    except Exception as error:
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        told = said or type(error).__name__
        raise Unsupported(f"{args.backend} does not run {args.file}: {told}") from error


def _of_peer(args: Namespace) -> Any:
    """What another compiler makes of the model."""
    from glasshouse.errors import Unsupported
    from glasshouse.model_argument import is_function, read_model, refuse_training
    from glasshouse.runtime.arrays import array_of

    given, count = read_model(args.file), max(1, args.runs)
    refuse_training(given, "another compiler is given a model")
    if args.backend in ("onnxruntime", "openvino"):
        if not args.file.endswith(".onnx"):
            name = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}[args.backend]
            raise Unsupported(
                f"{args.file}: {name} takes .onnx files", hint="export the model to one"
            )
        made = import_module(f"glasshouse.peers.{args.backend}")
        return made.recording_of(args.file, [array_of(x) for x in given.inputs], count)
    from glasshouse.peers.inductor import recording_of as of_inductor

    if not is_function(args.file):
        raise Unsupported(f"{args.file}: Inductor takes models of PyTorch: path.py:function")
    return of_inductor(given.model, given.args, given.keywords, given.graph, count)
