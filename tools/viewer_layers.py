"""Which folder of viewer/src may import which, and finds the imports that break that.

`check_layers.py` runs it. Every import counts, those of types too. Files directly in viewer/src
(the entries of page and worker) may import everything, and no folder may import them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from layers import Table, Violation, closure

VIEWER: Table = {
    "base": frozenset(),
    "model": frozenset({"base"}),
    "layout": frozenset({"model"}),
    "query": frozenset({"layout"}),  # what panels ask of the worker
    "engine": frozenset({"query"}),
    "gl": frozenset({"layout"}),
    "app": frozenset({"engine", "gl"}),
    "panels": frozenset({"app"}),
    "views": frozenset({"panels"}),  # pages are made of panels
}

_COMMENT = re.compile(r"^\s*//.*$|/\*.*?\*/", re.MULTILINE | re.DOTALL)
# `import a from "b"`, `export {a} from "b"`, `import "b"`, `import("b")`, `typeof import("b")`.
_IMPORT = re.compile(
    r"""(?:^\s*(?:import|export)\b[^;"']*?\bfrom|^\s*import|\bimport\s*\()\s*["']([^"']+)["']""",
    re.MULTILINE,
)


def imported_files(text: str) -> Iterator[tuple[int, str]]:
    """(line, name) for each import of a file beside this one."""
    plain = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for found in _IMPORT.finditer(plain):
        if found[1].startswith("."):
            yield plain.count("\n", 0, found.start(1)) + 1, found[1]


def _folder_of(file: PurePosixPath, name: str) -> str:
    """The folder of viewer/src that an import leads to; "" for files directly in it."""
    parts: list[str] = list(file.parent.parts)
    for part in PurePosixPath(name).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return parts[0] if len(parts) > 1 else ""


def check_viewer(source: Path, table: Table = VIEWER) -> list[Violation]:
    """All violations below viewer/src, in the order of files and lines."""
    reach = closure(table)
    found: list[Violation] = []
    for path in sorted(source.rglob("*.ts")):
        file = PurePosixPath(path.relative_to(source).as_posix())
        if len(file.parts) == 1:
            continue
        folder = file.parts[0]
        if folder not in table:
            found.append(Violation(path, 1, f"layer '{folder}' is unknown: add it to VIEWER"))
            continue
        for line, name in imported_files(path.read_text(encoding="utf-8")):
            other = _folder_of(file, name)
            if other not in {folder, *reach[folder]}:
                may = ", ".join(sorted(reach[folder])) or "nothing else"
                reason = f"'{folder}' imports {other or 'an entry'} ({name}); it may import {may}"
                found.append(Violation(path, line, reason))
    return found
