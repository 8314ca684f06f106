"""A trace leaves no text of files with Python that it did not hold before."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest
import torch

from glasshouse.frontend.torch.stacks import users_lines


def test_texts_of_files_that_stacks_name_are_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linecache, "cache", {})
    held, read = tmp_path / "held.py", tmp_path / "read.py"
    for file in (held, read):
        file.write_text("first = 1\n", encoding="utf-8")
    assert linecache.getline(str(held), 1) == "first = 1\n"
    assert linecache.getline(torch.__file__, 1)
    with users_lines():
        assert torch.__file__ not in linecache.cache
        assert linecache.getline(str(read), 1) == "first = 1\n"
        linecache.cache["<cell 1>"] = (4, None, ["x=1\n"], "<cell 1>")
    assert set(linecache.cache) == {str(held), "<cell 1>"}
    assert linecache.getline(str(read), 1) == "first = 1\n"
