"""The import check sees a third-party package however deep it is imported."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_import


@pytest.fixture
def fake_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "heavy_friend.py").write_text("")
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "inner.py").write_text("import heavy_friend")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "house" / "__init__.py"


def test_a_foreign_package_is_named(fake_package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake_package.write_text("import numpy\nimport house.inner")
    assert check_import.main("house") == 1
    assert "import house loads heavy_friend" in capsys.readouterr().out


def test_numpy_and_the_standard_library_are_free(fake_package: Path) -> None:
    fake_package.write_text("import json, numpy, sqlite3")
    assert check_import.foreign_modules("house") == set()
