"""What `glasshouse diff` prints and when it fails: what changed, against given limits."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from glasshouse.cli.count import at_least, positive

if TYPE_CHECKING:
    from glasshouse.record.reader import Recording
    from glasshouse.show.compare import Difference, Side

HELP = "print what changed between two files, or the stages of one; exit code 1 past the limits"


def add_arguments(parser: ArgumentParser) -> None:
    """Two files and the limits."""
    parser.add_argument(
        "a", metavar="A", help="a recording, any file that view opens, or path.py:function"
    )
    parser.add_argument("b", metavar="B", nargs="?", help="another; without it, A's last stage")
    parser.add_argument(
        "--stage-a", type=int, default=None, help="stage of A (last; first if no B)"
    )
    parser.add_argument("--stage-b", type=int, default=None, help="stage of B (last)")
    parser.add_argument("--top", type=at_least(1), default=12, help="lines of each list (12)")
    parser.add_argument(
        "--json", action="store_true", help="print all of it as JSON (docs/diff.schema.json)"
    )
    parser.add_argument(
        "--runs", type=at_least(0), default=0, metavar="N",
        help="compile both models and time them here, in N turns (60 are usual); more follow where "
        "noise hides whether B is past --max-slower",
    )  # fmt: skip
    parser.add_argument("--html", default="", metavar="FILE", help="both in one offline page")
    limits = parser.add_argument_group("limits, past which the exit code is 1")
    limits.add_argument(
        "--max-slower", type=slower, metavar="LIMIT",
        help="time of B over A, noise apart: 5%% or 1.05",
    )  # fmt: skip
    limits.add_argument(
        "--fail-on", default="", metavar="KINDS",
        help="what B must not have unless A has it: unfused,fallback,nan",
    )  # fmt: skip
    limits.add_argument(
        "--max-worse", type=positive, metavar="RATIO", help="largest error, B over A"
    )
    limits.add_argument("--max-error", type=float, metavar="ERROR", help="largest error of B")
    limits.add_argument("--max-nodes", type=at_least(0), metavar="COUNT", help="nodes that differ")


def run(args: Namespace) -> int:
    """Compare, print, judge."""
    from glasshouse.show.compare import describe
    from glasshouse.show.compare_json import to_json

    a, b, difference = compared(args)
    broken = past_limits(difference, args)
    if args.html:
        from glasshouse.show.html import plot_graph

        both, title = [a.recording, b.recording], f"{a.name} / {b.name}"
        path = plot_graph(both, args.html, title=title, compare=True)
        if not args.json:
            print(f"{path} ({path.stat().st_size / 1e6:.2f} MB)")
    if args.json:
        print(json.dumps(to_json(difference, broken), indent=2))
        return 1 if broken else 0
    print(describe(difference, max(1, args.top)), end="")
    for line in broken:
        print(f"past the limit: {line}")
    return 1 if broken else 0


def slower(text: str) -> float:
    """A limit as a ratio: `5%` and `1.05` are the same."""
    try:
        return 1 + float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is neither a ratio (1.05) nor a share (5%)") from None


def compared(args: Namespace) -> tuple[Side, Side, Difference]:
    """Both sides and what differs; with --runs, both programs are compiled and timed in turns."""
    from glasshouse.show.compare import compare

    if not args.runs:
        a, b = sides(args)
        return a, b, compare(a, b)
    from glasshouse.cli.in_turns import measured

    recordings, found = measured(args.a, args.b or args.a, args.runs, args.max_slower)
    a = _side(recordings[0], args.a, args.stage_a, -1)
    b = _side(recordings[1], args.b or args.a, args.stage_b, -1)
    difference = compare(a, b)
    difference.measured = found
    return a, b, difference


def sides(args: Namespace) -> tuple[Side, Side]:
    """What is compared: two files, or two stages of one."""
    from glasshouse.model_argument import shown
    from glasshouse.show.subject import recording_of

    one = recording_of(shown(args.a))
    two = one if args.b is None else recording_of(shown(args.b))
    return (
        _side(one, args.a, args.stage_a, 0 if args.b is None else -1),
        _side(two, args.b or args.a, args.stage_b, -1),
    )


def _side(recording: Recording, file: str, stage: int | None, default: int) -> Side:
    from glasshouse.errors import FormatError
    from glasshouse.show.compare import Side

    if not recording.graphs:
        raise FormatError(f"{file}: there is no graph in this file")
    view = recording.stage(0, default if stage is None else stage)
    many = len(view.graph.info.stages) > 1
    return Side(recording, view, f"{file}, {view.info.name}" if many else file)


def past_limits(d: Difference, args: Namespace) -> list[str]:
    """The limits that are broken; one that cannot be checked is broken too, and says why."""
    from glasshouse.errors import Unsupported, nearest
    from glasshouse.show.figures import percent
    from glasshouse.show.kernel_changes import FAILS, regressions

    out = []
    for limit, value, text in (
        (args.max_slower, d.surely_slower, "B takes at least {} of A's time, allowed are {}"),
        (args.max_worse, d.worse, "B's largest error is {} of A's, allowed are {}"),
    ):
        if limit is not None and not value <= limit:
            known = not math.isnan(value)
            out.append(
                text.format(percent(value), percent(limit))
                if known
                else "not measured in both files, so it cannot be checked"
            )
    if args.max_error is not None and not d.b.error <= args.max_error:
        out.append(f"B's largest error is {d.b.error:.1e}, allowed is {args.max_error:.1e}")
    kinds = [k.strip().lower() for k in args.fail_on.split(",") if k.strip()]
    if unknown := [k for k in kinds if k not in FAILS]:
        raise Unsupported(
            f"--fail-on knows no {unknown[0]!r}", hint=nearest(unknown[0], FAILS, "there are")
        )
    old, new = ((s.recording, s.stage.graph) for s in (d.a, d.b))
    out += regressions(old, new, frozenset(kinds))
    if args.max_nodes is not None and d.nodes > args.max_nodes:
        out.append(f"{d.nodes} nodes differ, allowed are {args.max_nodes}")
    return out
