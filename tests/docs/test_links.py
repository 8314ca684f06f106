"""Links between the pages lead to a file that is there, and to a heading of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    p
    for p in [*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "docs").rglob("*.md")]
    if "node_modules" not in p.parts
)


def _text(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)


def _places(page: Path) -> set[str]:
    """What a link to this page may end in: headings as GitHub and MkDocs name them, and anchors."""
    text = _text(page)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.M)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", t).lower() for t in titles]
    made = {re.sub(r"[^\w\- ]", "", t).strip().replace(" ", "-") for t in plain}
    return made | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links(page: Path) -> None:
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _text(page)):
        if re.match(r"\w+:", link):
            continue
        name, _, place = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (place and place not in _places(target)):
            wrong.append(link)
    assert wrong == []


def test_there_are_pages_with_links() -> None:
    assert sum("](" in _text(page) for page in PAGES) > 10
