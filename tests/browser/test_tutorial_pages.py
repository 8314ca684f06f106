"""The pages that the tutorials lead to, in the real viewer.

With GLASSHOUSE_PICTURES=1 the pictures in docs/pictures are made anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docs.test_tutorial import FOLDER, run_page
from glasshouse.record import Recording

PICTURES = FOLDER.parent / "pictures"
FILES = {
    "missed-fusion": (["block.glass", "fixed.glass"], "gelu"),
    "wrong-rewrite": (["found.glass"], "Clip"),
    "inductor": (["ours.glass", "inductor.glass"], "gelu"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_what_a_tutorial_ends_with(
    name: str,
    viewer: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(FOLDER / f"{name}.md", capsys)
    files, word = FILES[name]
    recordings = [Recording.open(file) for file in files]
    both = len(recordings) > 1
    given = recordings if both else recordings[0]
    v = viewer(given, size=(1600 if both else 1280, 640), **({"compare": True} if both else {}))
    v.see(word)
    v.settle()
    assert f"tutorial-{name}.png" in (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    if os.environ.get("GLASSHOUSE_PICTURES"):
        v.page.screenshot(path=PICTURES / f"tutorial-{name}.png")
