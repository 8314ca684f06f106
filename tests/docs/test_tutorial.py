"""The tutorials run as they stand: their files, their commands, and what these print."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from glasshouse import cli
from glasshouse.passes.subgraph_rewrite import RULES

FOLDER = Path(__file__).parents[2] / "docs" / "tutorial"
PAGES = sorted(FOLDER.glob("*.md"))
SLOW = ("inductor",)  # builds with two compilers
EACH = [
    pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in SLOW else []) for p in PAGES
]
_BLOCK = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", EACH)
def test_runs(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page(page, capsys) >= 2


def run_page(page: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Write the page's files here and give its commands; says how many these were."""
    before = dict(RULES)
    commands = 0
    try:
        for kind, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
            if kind == "python":
                name = text.split("\n", 1)[0].removeprefix("# ").strip()
                Path(name).write_text(text)
            else:
                commands += _console(text, capsys)
    finally:
        RULES.clear()
        RULES.update(before)
        for name in ("model", "rule"):
            sys.modules.pop(name, None)
    return commands


def _console(text: str, capsys: pytest.CaptureFixture[str]) -> int:
    """Each `$ command` prints the lines below it, whatever stands between, and ends as said."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    for part in parts:
        command, *lines = part.strip().splitlines()
        words = shlex.split(command)
        assert words[0] == "glasshouse"
        code = cli.main(words[1:])
        said = _plain(capsys.readouterr().out)
        assert lines[-1] == f"[exit {code}]", said
        for line in lines[:-1]:
            assert _plain(line) in said, f"{line!r} is not in:\n{said}"
    return len(parts)


def _plain(text: str) -> str:
    return " ".join(text.split())


def test_there_are_tutorials() -> None:
    assert {p.stem for p in PAGES} >= {"inductor", "missed-fusion", "wrong-rewrite"}
