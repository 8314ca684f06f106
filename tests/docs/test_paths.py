"""Files that the pages on the design name by a path in the source are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs/architecture.md", *sorted((ROOT / "docs/design").glob("*.md"))]
SOURCES = [
    str(path.relative_to(ROOT))
    for folder in ("src", "viewer", "tests", "benchmarks", "tools", "docs", "examples")
    for path in (ROOT / folder).rglob("*")
    if "node_modules" not in path.parts and path.is_file()
]
PATH = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|h|cuh|cpp|ts))`")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = set(PATH.findall(page.read_text(encoding="utf-8")))
    missing = [n for n in sorted(named) if not any(f"/{s}".endswith(f"/{n}") for s in SOURCES)]
    assert missing == []


def test_there_are_pages_that_name_files() -> None:
    assert sum(len(PATH.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 100
