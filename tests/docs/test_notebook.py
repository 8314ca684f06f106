"""The notebooks of the tutorial: every cell runs, in order, and no output is stored.

`make docs` runs them in Jupyter, with an error in a cell as an error of the build; here the same
cells run in one namespace, with warnings as errors.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    return [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"]
            if c["cell_type"] == "code"]  # fmt: skip


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_stores_no_outputs_and_is_in_the_menu(path: Path) -> None:
    assert len(cells(path)) >= 5
    for cell in cells(path):
        assert not cell["outputs"]
        assert cell["execution_count"] is None
    assert str(path.relative_to(ROOT / "docs")) in (ROOT / "mkdocs.yml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_cell_runs(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "cells.py"
    script.write_text("\n".join("".join(c["source"]) for c in cells(path)))
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "differs from PyTorch by" in done.stdout


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS
