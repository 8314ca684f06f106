"""Every script in examples/ runs as a newcomer would run it, and warns about nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))
# Compiles ResNet-18 twice, and test_results.py runs it with less; these start processes.
LONG = {"trace_training.py", "train_two_ranks.py", "tune_models.py", "serve_model.py"}
FOREIGN = {"serve_model.py"}  # Ray Serve warns while it is imported, of what pydantic thinks of it


def test_there_are_examples() -> None:
    assert SCRIPTS


@pytest.mark.parametrize(
    "script", [pytest.param(s, marks=pytest.mark.slow if s in LONG else ()) for s in SCRIPTS]
)
def test_runs(script: str, tmp_path: Path) -> None:
    """Started elsewhere: an example must not rely on the folder it is started in."""
    done = subprocess.run(
        [sys.executable, "-W", "default" if script in FOREIGN else "error", str(FOLDER / script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout, "an example shows something"
