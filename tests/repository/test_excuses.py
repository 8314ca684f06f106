"""What is excused from a check says why beside it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BARE = re.compile(r"# type: ignore(\[[^]]*\])?$")


def test_every_ignored_type_has_its_reason() -> None:
    files = [p for folder in ("src", "tests", "tools", "benchmarks", "examples", ".github")
             for p in (ROOT / folder).rglob("*.py")]  # fmt: skip
    assert len(files) > 500
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if BARE.search(line)
    ]
    assert not bare
