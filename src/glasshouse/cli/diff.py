"""What `glasshouse diff` prints and when it fails: what changed, against given limits."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

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
    parser.add_argument("--top", type=int, default=12, help="lines of each list (12)")
    parser.add_argument(
        "--json", action="store_true", help="print all of it as JSON (docs/diff.schema.json)"
    )
    limits = parser.add_argument_group("limits, past which the exit code is 1")
    limits.add_argument("--max-slower", type=float, metavar="RATIO", help="time of B over A: 1.05")
    limits.add_argument("--max-worse", type=float, metavar="RATIO", help="largest error, B over A")
    limits.add_argument("--max-error", type=float, metavar="ERROR", help="largest error of B")
    limits.add_argument("--max-nodes", type=int, metavar="COUNT", help="nodes that differ")


def run(args: Namespace) -> int:
    """Compare, print, judge."""
    from glasshouse.show.compare import compare, describe
    from glasshouse.show.compare_json import to_json

    a, b = sides(args)
    difference = compare(a, b)
    broken = past_limits(difference, args)
    if args.json:
        print(json.dumps(to_json(difference, broken), indent=2))
        return 1 if broken else 0
    print(describe(difference, max(1, args.top)), end="")
    for line in broken:
        print(f"past the limit: {line}")
    return 1 if broken else 0


def sides(args: Namespace) -> tuple[Side, Side]:
    """What is compared: two files, or two stages of one."""
    from glasshouse.cli.model_argument import shown
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
    from glasshouse.show.figures import percent

    out = []
    for limit, value, text in (
        (args.max_slower, d.slower, "B takes {} of A's time, allowed are {}"),
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
    if args.max_nodes is not None and d.nodes > args.max_nodes:
        out.append(f"{d.nodes} nodes differ, allowed are {args.max_nodes}")
    return out
