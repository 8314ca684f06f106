"""The comparison of two recordings (`glasshouse diff --json`) as a table in Markdown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def milliseconds(value: float | None) -> str:
    return "not measured" if value is None else f"{value * 1e3:.3f} ms"


def error(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1e}"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}×"


def table(diff: dict[str, Any]) -> str:
    a, b, nodes = diff["a"], diff["b"], diff["nodes"]
    lines = [
        "### Glasshouse: this pull request against its base", "",
        "| | base | pull request | ratio |", "|---|---|---|---|",
        (f"| kernels | {milliseconds(a['seconds'])} | {milliseconds(b['seconds'])} "
        f"| {ratio(diff['slower'])} |"),
        f"| largest error | {error(a['error'])} | {error(b['error'])} | {ratio(diff['worse'])} |",
        (f"| nodes | {nodes['same'] + len(nodes['removed']) + len(nodes['changed'])} "
        f"| {nodes['same'] + len(nodes['added']) + len(nodes['changed'])} | "
        f"+{len(nodes['added'])} −{len(nodes['removed'])} ~{len(nodes['changed'])} |"),
    ]  # fmt: skip
    if diff["past_limits"]:
        lines += ["", *(f"- past the limit: {line}" for line in diff["past_limits"])]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # a stream of text
    sys.stdout.write(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
