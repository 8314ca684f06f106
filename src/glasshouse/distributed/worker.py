"""A process that does tasks: one JSON line in, one out, until its input ends."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from glasshouse.errors import GlasshouseError


def answer(text: str) -> dict[str, Any]:
    """What came of a task, or why it fails whoever does it."""
    from glasshouse.distributed.task import Task, run

    try:
        return {"result": run(Task.from_json(text))}
    except (GlasshouseError, OSError) as error:
        return {"error": str(error)}


def main() -> None:
    # What models print goes to stderr: the answers have this channel for themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer(line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
