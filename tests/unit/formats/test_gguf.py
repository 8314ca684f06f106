"""GGUF: metadata and a tree of tensors from the head of the file alone."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import group_paths
from fuzz.seeds import gguf
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.record.schema import DataRow

HEAD = b"GGUF" + struct.pack("<I", 3)


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def test_a_tree_of_tensors(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf())
    recording = formats.read(path)
    graph = recording.graphs[0]
    nodes = list(graph.stage(0).nodes)
    assert [(n.name, n.outputs[0]) for n in nodes] == [
        ("blk.0.attn_q.weight", "q8_0[2, 32]"),
        ("blk.0.attn_norm.weight", "float32[4]"),
        ("output.weight", "float16[2, 4]"),
    ]
    paths = group_paths(graph)
    assert [paths[g] for g in nodes[0].groups] == [("module", "blk", "0", "attn_q")]
    assert [d.number for d in graph.table(DataRow)] == [68.0, 16.0, 16.0]
    facts = recording.header.facts
    assert facts["architecture"] == "llama"
    assert facts["block count"] == "2"
    assert facts["parameters"] == "76"
    assert facts["types"] == "1 q8_0, 1 float32, 1 float16"
    attrs = graph.info.attrs
    assert attrs["tokenizer.ggml.tokens"] == (
        "['t0', 't1', 't2', 't3', 't4', 't5', 't6', 't7', ... (10)]"
    )
    assert attrs["tokenizer.ggml.scores"] == "[0, 1, 2, 3, 4, 5, 6, 7, ... (10)]"


def test_version_1_and_big_endian() -> None:
    one = b"GGUF" + struct.pack("<III", 1, 1, 1) + struct.pack("<I1sII", 1, b"a", 4, 7)
    one += struct.pack("<I3sIIIQ", 3, b"x.w", 1, 2, 0, 0)
    big = b"GGUF" + struct.pack(">IQQ", 3, 1, 1) + struct.pack(">Q1sII", 1, b"a", 4, 7)
    big += struct.pack(">Q3sIQIQ", 3, b"x.w", 1, 2, 0, 0)
    for data in (one, big):
        graph = formats.read(data + bytes(64), "m.gguf").graphs[0]
        assert graph.stage(0).nodes.pylist("outputs") == [["float32[2]"]]
        assert graph.info.attrs == {"a": "7"}


def test_a_long_vocabulary_is_walked_in_a_window(tmp_path: Path) -> None:
    words = 300_000
    data = HEAD + struct.pack("<QQ", 0, 1) + string("words") + struct.pack("<IIQ", 9, 8, words)
    path = tmp_path / "m.gguf"
    path.write_bytes(data + string("abcdefgh") * words)
    tracemalloc.start()
    try:
        graph = formats.read(path).graphs[0]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert graph.info.attrs["words"].endswith("... (300,000)]")


def pair(kind: int, value: bytes) -> bytes:
    return HEAD + struct.pack("<QQ", 0, 1) + string("k") + struct.pack("<I", kind) + value


@pytest.mark.parametrize(
    "data, says",
    [
        (b"GGUF" + bytes(28), "version 0"),
        (b"GGUF" + struct.pack("<I", 9) + bytes(28), "version 9"),
        (HEAD + b"\xff" * 16, "more than fit"),
        (HEAD + struct.pack("<QQ", 0, 1) + b"\xff" * 8 + bytes(30), "are said to follow|cut off"),
        (pair(13, bytes(20)), "unknown type 13"),
        (pair(9, struct.pack("<IQ", 13, 1)), "unknown type 13"),
        (pair(9, struct.pack("<IQ", 9, 1)), "a list of lists"),
        (pair(9, struct.pack("<IQ", 8, 2**62)), "are said to follow"),
        (pair(9, struct.pack("<IQ", 12, 2**62)), "are said to follow"),
        (HEAD + struct.pack("<QQ", 1, 0) + string("t") + struct.pack("<I", 99), "99 dimensions"),
        (gguf()[:-1], "outside the file"),
    ],
)
def test_broken_files_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        formats.read(data, "m.gguf")
    assert "\n" not in str(caught.value)


def test_a_file_cut_off_anywhere_is_refused() -> None:
    data = gguf()
    for length in range(1, len(data)):
        with pytest.raises(FormatError):
            formats.read(data[:length], "m.gguf")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_files_are_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(gguf())
    for place, value in changes:
        data[place % len(data)] = value
    with contextlib.suppress(FormatError):
        formats.read(bytes(data), "m.gguf").to_bytes()
