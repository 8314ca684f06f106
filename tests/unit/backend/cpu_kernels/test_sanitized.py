"""All kernels under the address and undefined-behaviour sanitizers, on exactly sized blocks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
def test_no_access_outside_and_no_undefined_behaviour(
    isa: str, compile_driver: Callable[[str, Path, list[str]], None], tmp_path: Path
) -> None:
    program = tmp_path / "sanitized"
    compile_driver(
        "sanitized", program, ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    )
    # Freed blocks are kept back, so that a late write to one is seen.
    done = subprocess.run(
        [str(program)], capture_output=True, text=True, check=False,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=64"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.strip() == "clean"
