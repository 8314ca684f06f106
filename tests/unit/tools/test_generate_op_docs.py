"""The op reference is up to date and mentions every op."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import generate_op_docs
from glasshouse.ir.op import REGISTRY


def test_the_page_is_up_to_date() -> None:
    # A process of its own: other tests may register ops.
    command = [sys.executable, generate_op_docs.__file__, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_op_has_an_entry_with_its_attributes() -> None:
    page = generate_op_docs.document()
    for name, op in REGISTRY.items():
        entry = page.split(f"\n### {name}\n", 1)[1].split("\n###", 1)[0]
        for attr in op.attrs:
            assert f"{attr}: " in entry, (name, attr)


def test_check_notices_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_op_docs, "PATH", tmp_path / "reference" / "ops.md")
    assert generate_op_docs.main(["--check"]) == 1
    assert "run python tools/generate_op_docs.py" in capsys.readouterr().err
    assert generate_op_docs.main([]) == 0
    assert generate_op_docs.main(["--check"]) == 0
    generate_op_docs.PATH.write_text("# Core ops\n", encoding="utf-8")
    assert generate_op_docs.main(["--check"]) == 1
