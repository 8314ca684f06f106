"""Which format a file is in: by content, then by name; and what is said of files that are none."""

from __future__ import annotations

import io
import pickle
import random
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from format_files import DATA
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.formats.json_kind import json_kind, outer_keys
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.source import SourceFile
from glasshouse.record import RecordingBuilder

SUFFIXES = [
    ".glass", ".onnx", ".json", ".pt2", ".pkl", ".pte", ".tflite", ".safetensors", ".mlir", ".bin",
    ".txt", ".pb", ".stablehlo", ".gguf", ".xml", ".keras", ".h5", ".pt", ".mlmodel",
]  # fmt: skip


def test_content_decides_before_the_name() -> None:
    for path, name in {
        "jittor/simple_model.pkl": "jittor", "hidet/attention-graph.json": "hidet",
        "executorch/xnnpack.pte": "pte", "mlir/pretty.mlir": "mlir", "mlir/generic.mlir": "mlir",
    }.items():  # fmt: skip
        data = (DATA / path).read_bytes()
        assert formats.detect(data, "file") == name
        assert formats.detect(data, "wrong.onnx") == name
    glass = RecordingBuilder().finish().to_bytes()
    assert formats.detect(glass, "renamed.pt2") == "glass"


@pytest.mark.parametrize(
    "text, kind",
    [
        ('{"label": "m", "graphs": [{"id": "g", "nodes": [{"id": "a"}]}]}', "model_explorer"),
        ('{"graphs": [{"nodes": [{"label": "x"}], "id": "g"}]}', "model_explorer"),
        ('[{"id": "g"}]', "model_explorer"),
        ('[{"label": "m", "subgraphs": []}]', "model_explorer"),
        ('{"graphs": [{"name": "", "inputs": []}]}', "hidet"),
        ('{"format": "netron", "graphs": []}', "hidet"),
        ('{"graphs": [{"nodes": [{"name": "a", "type": {"name": "Add"}}]}]}', "hidet"),
        ('{"g": {"name": "us", "results": {}}}', "node_data"),
        ('[{"queries": [], "styles": {}}]', "styler"),
        ('{"type": "sync_navigation", "mappingEntries": []}', "sync"),
        ('{"graph_module": {}, "schema_version": {}}', "pt2"),
        ('{"graphs": [{"id": "cut of', "model_explorer"),
        ("{}", ""),
        ("[[[", ""),
    ],
)
def test_kinds_of_json(text: str, kind: str) -> None:
    assert json_kind(text) == kind


@settings(max_examples=200, deadline=None)
@given(st.text('{}[]:,"\\ ab1', max_size=60))
def test_any_head_can_be_looked_at(text: str) -> None:
    outer_keys(text)
    json_kind(text)


def test_a_head_full_of_quotes_is_looked_at_once() -> None:
    json_kind("{" + '"\\' * 32_000)


def contents() -> dict[str, bytes]:
    chance = random.Random(1)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("../../etc/passwd", "x")
        archive.writestr("data.txt", "x")
    return {
        "empty": b"",
        "space": b" \n\t" * 100,
        "zeros": bytes(10_000),
        "random": chance.randbytes(1 << 16),
        "high": bytes([128]) + chance.randbytes(100),
        "text": b"hello world\n" * 10,
        "open": b"[" * 1_000_000,
        "closed": b"[" * 300_000 + b"]" * 300_000,
        "objects": b'{"a":' * 200_000,
        "archive": out.getvalue(),
        "half archive": out.getvalue()[:40],
        "code": pickle.dumps(print),
        "old code": b"cos\nsystem\n(S'false'\ntR.",
        "long line": b"a" * 1_000_000,
        "magic": b"\0\0\0\0TFL3" + bytes(100),
        "more magic": b"\0\0\0\0ET12eh00" + bytes(100),
        "gguf": b"GGUF\3\0\0\0" + b"\xff" * 16,
        "xml": b"<?xml version='1.0'?><html></html>",
        "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(100),
        "lengths": b"\xff\xff\xff\x00\0\0\0\0{" + b"x" * 100,
    }


@pytest.mark.parametrize("name", contents())
def test_no_file_ends_in_anything_but_one_line(name: str) -> None:
    data = contents()[name]
    for suffix in SUFFIXES:
        with pytest.raises(FormatError) as caught:
            formats.read(data, f"file{suffix}")
        said = str(caught.value)
        assert said.startswith(f"file{suffix}")
        assert "\n" not in said
        assert len(said) < 700


def test_a_small_file_never_takes_much_memory() -> None:
    worst = {
        "f.json": b'{"graphs":[{"id":"g","nodes":[' + b'{"id":"a"},' * 5000,
        "f.pkl": b"\x80\x04(" + b"]" * 200_000,
        "f.mlir": b"module {\n" * 900 + b"%0 = a.b\n" * 5000,
        "f.safetensors": (2**40).to_bytes(8, "little") + b"{" + bytes(1000),
    }
    for name, data in worst.items():
        tracemalloc.start()
        try:
            with pytest.raises(FormatError):
                formats.read(data, name)
            assert tracemalloc.get_traced_memory()[1] < 64 << 20, name
        finally:
            tracemalloc.stop()


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.onnx: cannot be read \(No such file"):
        formats.read(tmp_path / "none.onnx")
    with pytest.raises(FormatError, match=r"(?s)a folder, and none of a format.*name a model file"):
        formats.read(tmp_path)


def test_a_folder_of_other_files_says_which_of_them_opens(tmp_path: Path) -> None:
    """What is downloaded from a hub is such a folder."""
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_text('{"hidden_size": 768}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(FormatError, match=r"(?s)a folder.*name a file in it: model\.safetensors"):
        formats.read(tmp_path)


def test_files_beside_cannot_be_elsewhere(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret").write_text("x")
    (inner / "file").write_text("x")
    (inner / "link").symlink_to(tmp_path / "secret")
    source = SourceFile(inner / "file")
    assert source.beside("file") == (inner / "file").resolve()
    for name in ("../secret", "/etc/passwd", "link", "", "a\0b", "none"):
        assert source.beside(name) is None
    assert SourceFile(b"x", "file").beside("file") is None


def test_families_of_ops() -> None:
    expected = {
        "matmul": "Matmul aten.addmm.default FULLY_CONNECTED dot_general FusedBatchMatmul1",
        "conv": "Conv aten.convolution.default DEPTHWISE_CONV_2D",
        "norm": "LayerNormalization aten.native_layer_norm.default BatchNorm",
        "elementwise": "Add binary.add aten.mul.Scalar Gelu aten.relu.default",
        "reduction": "ReduceSum reduce.add Softmax MaxPool aten.mean.dim",
        "shape": "Reshape aten.permute.default broadcast_to",
        "move": "Concat aten.cat.default Gather aten._to_copy.default",
        "quant": "QuantizeLinear quantized_decomposed.dequantize_per_tensor",
        "source": "Input Constant placeholder",
        "opaque": "Frobnicate executorch_call_delegate",
    }
    for kind, names in expected.items():
        for name in names.split():
            assert kind_of(name) == kind, name


any_bytes: Any = st.binary(max_size=200)


@settings(max_examples=150, deadline=None)
@given(any_bytes, st.sampled_from(SUFFIXES))
@example(b"\x80", ".glass")
def test_any_bytes_under_any_name(data: bytes, suffix: str) -> None:
    try:
        formats.read(data, f"f{suffix}")
    except FormatError as error:
        said = str(error)
        assert "\n" not in said


def test_python_code_is_parsed_for_functions_and_never_run(tmp_path):
    path = tmp_path / "m.py"
    text = "raise SystemExit\ndef one(x): pass\ndef _two(): pass\ndef three(n=2, *, k=1): pass\n"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"without arguments it has: three$"):
        formats.read(path)
    path.write_text("def broken(:\n")
    with pytest.raises(FormatError, match="FUNCTION, which"):
        formats.read(path)
