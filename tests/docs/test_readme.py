"""The Python in README.md runs as it stands, and says what its comments say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_there_is_an_example() -> None:
    assert BLOCKS


def test_what_it_points_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_runs(number: int, tmp_path: Path) -> None:
    script = tmp_path / "readme.py"
    script.write_text(BLOCKS[number])
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if "origin.source" in BLOCKS[number]:
        assert "readme.py:5 in 2" in done.stdout  # the last node's line and module
        assert 'fusion="Matmul Add Relu"' in done.stdout
