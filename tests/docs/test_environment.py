"""Every environment variable that the source reads stands on the page of them, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/environment.md"
INTERNAL = {"GLASSHOUSE_"}  # the beginning of a header's guard


def test_the_page_has_every_variable_and_no_other():
    used = set()
    for path in (ROOT / "src").rglob("*"):
        if path.suffix in (".py", ".cpp", ".h"):
            used |= set(re.findall(r"GLASSHOUSE_[A-Z_]*", path.read_text(encoding="utf-8")))
    used = {name for name in used - INTERNAL if not name.endswith("_H")}
    written = set(re.findall(r"^\| `(GLASSHOUSE_[A-Z_]+)`", PAGE.read_text(), re.MULTILINE))
    assert written == used
