"""safetensors: a tree of tensors from the header alone."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import group_paths
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.record.schema import DataRow


def pack(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


HEADER = {
    "__metadata__": {"format": "pt"},
    "enc.0.fc.weight": entry("F32", [2, 3], 0, 24),
    "enc.0.fc.bias": entry("BF16", [2], 24, 28),
    "scale": entry("F8_E4M3", [], 28, 29),
}


def test_a_tree_of_tensors(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(pack(HEADER, bytes(29)))
    recording = formats.read(path)
    graph = recording.graphs[0]
    nodes = list(graph.stage(0).nodes)
    assert [(n.name, n.outputs[0]) for n in nodes] == [
        ("enc.0.fc.weight", "float32[2, 3]"),
        ("enc.0.fc.bias", "bfloat16[2]"),
        ("scale", "float8_e4m3fn[]"),
    ]
    assert [group_paths(graph)[g] for n in nodes for g in n.groups] == [
        ("module", "enc", "0", "fc")] * 2  # fmt: skip
    assert [d.number for d in graph.table(DataRow)] == [24.0, 4.0, 1.0]
    assert recording.header.facts["parameters"] == "9"
    assert graph.info.attrs == {"format": "pt"}


@pytest.mark.parametrize(
    "data, says",
    [
        (pack(HEADER, bytes(28)), "outside the file"),
        (pack({"a": {"dtype": "F32"}}), "no usable shape"),
        (pack({"a": entry("F32", [-1], 0, 0)}), "no usable shape"),
        (pack({"a": entry("F32", [1], 4, 0)}), "outside the file"),
        (pack(b"{" * 100), "a key was expected|unexpected JSON"),
        (pack(b"{}")[:9], "header does not fit"),
        ((2**27).to_bytes(8, "little") + b"{}", "header does not fit"),
    ],
)
def test_broken_files_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        formats.read(data, "w.safetensors")
    assert "\n" not in str(caught.value)


values = st.none() | st.integers(-3, 2**70) | st.text(max_size=3) | st.lists(st.integers(0, 5))


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=4),
        st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets"]), values),
    )
)
def test_any_header_is_read_or_refused(header: Any) -> None:
    with contextlib.suppress(FormatError):
        formats.read(pack(header, bytes(4)), "w.safetensors")
