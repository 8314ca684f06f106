"""A class name means one thing in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "glasshouse"

TWICE = {
    "Module": "a model of glasshouse.nn, as everywhere in the field; and a compiled model",
}
"""Public names that stand for two things, each with the reason."""


def classes() -> dict[str, list[str]]:
    """Files by the classes in them. `compat` has the names of other libraries: that is its use."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        where = file.relative_to(PACKAGE)
        if where.parts[0] == "compat":
            continue
        for node in ast.parse(file.read_text(encoding="utf-8")).body:  # not those inside functions
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{where.as_posix()}:{node.lineno}")
    return found


def test_no_class_name_exists_twice() -> None:
    doubles = {name: places for name, places in classes().items() if len(places) > 1}
    assert doubles.keys() == TWICE.keys(), {k: v for k, v in doubles.items() if k not in TWICE}
