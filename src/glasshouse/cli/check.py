"""What `glasshouse check` answers: is the compiled model right, and if not, what is to blame."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Any

from glasshouse.cli.count import positive
from glasshouse.model_argument import HELP as MODEL_HELP

if TYPE_CHECKING:
    from glasshouse.checking.check import Subject, Verdict

HELP = "compare a compiled model with PyTorch and with float64, pass by pass, kernel by kernel"


def add_arguments(parser: ArgumentParser) -> None:
    """The model and how strict to be."""
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument("--target", default="cpu", help="what to compile for (cpu)")
    parser.add_argument("--precision", default=None, help="of products: float32, bf16, f16")
    parser.add_argument(
        "--tolerance", type=positive, default=None, metavar="ERROR",
        help="of passes and results, relative (by element type: 1e-5 for float32)",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on", type=kinds, default=frozenset(), metavar="KINDS",
        help="further kinds that fail: fallback,NaN",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true", help="print all of it as JSON (docs/check.schema.json)"
    )


def run(args: Namespace) -> int:
    """Trace, compile, check, say what is wrong; 1 if something is."""
    verdict = checked(args)
    bad = not verdict.good or any(f.kind.lower() in args.fail_on for f in verdict.findings)
    if args.json:
        print(json.dumps(to_json(verdict, not bad), indent=2))
    else:
        print(describe(verdict, not bad), end="")
    return 1 if bad else 0


def kinds(text: str) -> frozenset[str]:
    """Kinds of findings, as a list with commas; one that there is not would never fail."""
    from glasshouse.checking.finding import KINDS
    from glasshouse.errors import nearest

    wanted = frozenset(k.strip().lower() for k in text.split(",") if k.strip())
    known = {k.lower() for k in KINDS}
    for kind in sorted(wanted - known):
        raise ArgumentTypeError(f"there is no kind {kind!r}; {nearest(kind, KINDS, 'there are')}")
    return wanted


def checked(args: Namespace) -> Verdict:
    """The verdict on the model of an argument."""
    from glasshouse.checking.check import check
    from glasshouse.cli.progress import Progress, say
    from glasshouse.runtime.compiler import compile_optimized

    subject = subject_of(args.model)
    progress = Progress()
    try:
        module = compile_optimized(
            subject.graph, args.target, progress, tune=False, precision=args.precision
        )
    finally:
        progress.end()
    return check(subject, module, args.tolerance, lambda text: say(f"checking: {text}"))


def subject_of(text: str) -> Subject:
    """What an argument names, as it is checked."""
    from glasshouse.checking.check import Subject
    from glasshouse.model_argument import is_function, read_model

    given = read_model(text)
    if is_function(text):
        return Subject(
            given.name, given.graph, given.model, given.args, given.keywords, given.inputs,
            given.training,
        )  # fmt: skip
    return Subject(given.name, given.graph, _program(text), given.args, {}, given.inputs)


def _program(text: str) -> Any:
    """The exported program of a .pt2 file, which PyTorch runs as well."""
    if not text.endswith(".pt2"):
        return None
    import torch

    return torch.export.load(text)


def describe(verdict: Verdict, good: bool) -> str:
    """The verdict for a terminal."""
    from glasshouse.show.figures import table

    rows = [["inputs", "error", "model's own"]]
    for case in verdict.cases:
        own = f"{case.reference:.1e}" if case.reference == case.reference else ""
        rows.append([case.name, f"{case.error:.1e}", own])
    parts = [f"{verdict.name}: {verdict.kernels} kernels, {len(verdict.cases)} sets of inputs"]
    parts.append(table(rows, [1, 2]))
    parts += [f"  {note}" for note in verdict.notes]
    for title, fails in (("Wrong", True), ("Worth knowing", False)):
        found = [str(f) for f in verdict.findings if f.fails is fails]
        if found:
            parts.append(title)
            parts += ["  " + text.replace("\n", "\n  ") for text in found]
    right = "right: no pass and no kernel is further from the model than rounding"
    parts.append(right if good else "wrong")
    return "\n".join(parts) + "\n"


def to_json(verdict: Verdict, good: bool) -> dict[str, Any]:
    """The verdict for scripts: docs/check.schema.json."""

    def number(value: float) -> float | str | None:
        return None if value != value else "inf" if value == float("inf") else value

    return {
        "version": 1,
        "name": verdict.name,
        "good": good,
        "kernels": verdict.kernels,
        "cases": [
            {"name": c.name, "error": number(c.error), "reference": number(c.reference)}
            for c in verdict.cases
        ],
        "findings": [f.to_json() for f in verdict.findings],
        "notes": verdict.notes,
    }
