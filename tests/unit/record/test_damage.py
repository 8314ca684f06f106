"""A damaged or hostile recording ends in a FormatError or in the right data, nothing else."""

from __future__ import annotations

import contextlib
import io
import json
import random
import tracemalloc
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glasshouse.errors import FormatError
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.columns import Column
from glasshouse.record.schema import GRAPH_TABLES, DataRow, KernelRow, RewriteRow, Text
from glasshouse.record.table_bytes import decode_table, encode_table


def sample() -> bytes:
    made = RecordingBuilder("sample")
    made.source("m.py", "x = 1\n")
    graph = made.graph("main")
    group = graph.group("module", "m")
    for i in range(12):
        graph.node(f"op{i}", inputs=[i - 1] if i else [], groups=[group], attrs={"a": "é" * i})
    graph.stage("second")
    graph.end(3)
    graph.add(KernelRow(0, "k", 1, [1, 2], "cpu", "v", Text("code")))
    graph.add(RewriteRow(1, "P", "r", "why", [3], []))
    graph.add(DataRow("d", 1, 0.5))
    return made.finish().to_bytes()


def everything(data: bytes) -> Any:
    with Recording.open(data) as recording:
        return [
            [list(graph.table(c)) for c in GRAPH_TABLES.values()] for graph in recording.graphs
        ], list(recording.sources)


GOOD = sample()
SAID = everything(GOOD)


def test_every_prefix_is_refused() -> None:
    for length in range(len(GOOD)):
        with pytest.raises(FormatError):
            everything(GOOD[:length])


def test_flipped_bits_are_noticed_or_harmless() -> None:
    chance = random.Random(7)
    refused = 0
    for _ in range(1500):
        data = bytearray(GOOD)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            said = everything(bytes(data))
        except FormatError:
            refused += 1
        else:
            assert said == SAID
    assert refused > 500


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_as_a_table(data: bytes) -> None:
    with contextlib.suppress(FormatError):
        decode_table("t", data, 3)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["int", "text", "list<int>", "str", "i8", "i32", "f64", "u8", "delta"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["rows", "columns", "name", "type", "enc", "parts"]), inner),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(JSON, st.binary(max_size=64))
def test_any_table_header(head: Any, rest: bytes) -> None:
    text = json.dumps(head).encode()
    start = len(text).to_bytes(4, "little") + text
    with contextlib.suppress(FormatError):
        decode_table("t", start + bytes(-len(start) % 8) + rest, 3)


def table(rows: Any, parts: Any, kind: str = "int", body: bytes = b"", **more: Any) -> bytes:
    head = {"rows": rows, "columns": [{"name": "c", "type": kind, "parts": parts, **more}]}
    text = json.dumps(head).encode()
    start = len(text).to_bytes(4, "little") + text
    return start + bytes(-len(start) % 8) + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xff\xff\xff{}",
        (5_000_000).to_bytes(4, "little") + b"[" * 5_000_000,
        (900_000).to_bytes(4, "little") + b"[" * 900_000,
        table(2**60, [[0, 2**60, "i8"]]),
        table(2**50, [[0, 2**50, "i8"]]),
        table(-1, [[0, -1, "i8"]]),
        table(True, [[0, 1, "i8"]], body=b"1"),
        table(1, [[2**52, 1, "i8"]], body=b"1"),
        table(1, [[0, 8, "f64"]], body=np.array([np.nan]).tobytes()),
        table(1, [[0, 8, "f64"]], body=np.array([0.5]).tobytes()),
        table(1, [[0, 8, "f64"]], body=np.array([1e300]).tobytes()),
        table(1, [[0, 1, "i8"]], "str", b"\x63"),
        table(1, [[0, 1, "i8"]], "str", b"\xff"),
        table(1, [[0, 1, "i8"], [1, 1, "u8"]], "text", b"\x01\xff"),
        table(1, [[0, 1, "i8"], [8, 1, "u8"]], "text", b"\x01" + bytes(7) + b"\xc3"),
        table(2, [[0, 2, "i8"], [8, 2, "u8"]], "text", b"\x01\x01" + bytes(6) + "é".encode()),
        table(2, [[0, 2, "i8"], [8, 0, "i8"]], "list<int>", b"\x01\xff" + bytes(6)),
        table(1, [[0, 8, "f64"], [8, 0, "i8"]], "list<int>", np.array([2.0**53]).tobytes()),
        table(1, [[0, 1, "i8"]], "list<int>", b"\x00"),
        table(1, [[0, 1, "f32"]], "int", b"\x00"),
        table(1, [[0, 1, "i8", "i8"]], "int", b"\x00"),
    ],
)
def test_tables_that_lie(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_table("t", data, 3)


@pytest.mark.parametrize("odd", [{}, [], None, 7, "new"])
def test_columns_of_an_unknown_kind_are_left_out(odd: Any) -> None:
    """Found by mutation: a type that is an object raised TypeError."""
    assert decode_table("t", table(1, [[0, 1, "i8"]], odd, b"\x00"), 3) == (1, {})
    assert decode_table("t", table(1, [[0, 1, odd]], "int", b"\x00"), 3) == (1, {})


def test_a_good_table_is_not_refused() -> None:
    column = Column("str", np.array([0, 2]))
    assert decode_table("t", encode_table(2, {"c": column}), 3)[0] == 2


def archive(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in members.items():
            target.writestr(name.replace("glass_json", "glass.json"), data)
    return out.getvalue()


def head(**changes: Any) -> bytes:
    plain: dict[str, Any] = {
        "format": "glasshouse", "version": [1, 0], "generator": "", "title": "",
        "graphs": [{"name": "g", "stages": [{"name": "s"}]}],
    }  # fmt: skip
    return json.dumps(plain | changes).encode()


@pytest.mark.parametrize(
    "data, says",
    [
        (b"", "not a recording"),
        (b"PK\x03\x04", "not a recording"),
        (b"[" * 100_000, "not a recording"),
        (archive(a=b""), "not a Glasshouse recording"),
        (archive(glass_json=b"{}"), "not a Glasshouse recording"),
        (archive(glass_json=b"[" * 100_000), "nested too deeply"),
        (archive(glass_json=head(version=[2, 0])), "pip install --upgrade glasshouse"),
        (archive(glass_json=head(version="1")), "version"),
        (archive(glass_json=head(graphs=3)), "graphs: expected a list"),
        (archive(glass_json=head(graphs=[{"stages": []}])), "name is missing"),
        (archive(glass_json=head(graphs=[{"name": "g", "stages": []}])), "no stage"),
        (archive(glass_json=head(title=1)), "title: expected str, found int"),
    ],
)
def test_files_that_are_no_recording(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        Recording.open(data, "x.glass")
    assert str(caught.value).startswith("x.glass")
    assert "\n" not in str(caught.value)


def test_a_plain_header_is_a_recording() -> None:
    assert Recording.open(archive(glass_json=head())).stage(0, 0).nodes.rows == 0


def test_a_missing_file_says_so(tmp_path: Any) -> None:
    with pytest.raises(FormatError, match=r"none\.glass: cannot be read \(No such file"):
        Recording.open(tmp_path / "none.glass")


def test_a_zip_bomb_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSHOUSE_LIMITS", f"decoded_bytes={64 << 20}")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("glass.json", head())
        with target.open("strings", "w") as member:
            for _ in range(80):
                member.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"asks for 83,886,\d+ bytes when decoded"):
            len(Recording.open(out.getvalue()).strings)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_lying_size_inflates_no_further() -> None:
    data = bytearray(archive(glass_json=head(), strings=bytes(50 << 20)))
    where = data.rindex(b"PK\x01\x02")
    assert data[where + 46 : where + 53] == b"strings"
    data[where + 24 : where + 28] = (16).to_bytes(4, "little")
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="damaged"):
            len(Recording.open(bytes(data)).strings)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
