"""Files that are not what their name says are told so in plain words, with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from glasshouse import formats
from glasshouse.errors import FormatError

CASES = [
    (
        "x.pt2",
        bytes(range(200, 256)) * 8,
        "not an exported program: .* bytes c8 c9",
    ),
    ("x.json", b'{"graphs":[{"id":"a","nodes":[{"id":"1","label":"x"', "cut off: it ends after 51"),
    ("x.json", b'{"graphs":[{"id":"a","no', "cut off: it ends after 24 characters"),
    (
        "x.onnx",
        b"\x08\x09" + bytes(range(100, 200)),
        "not an ONNX model, or cut off: .* at byte 2 of 102",
    ),
]


@pytest.mark.parametrize(("name", "content", "said"), CASES)
def test_says_what_and_where(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FormatError, match=said):
        formats.read(path)
