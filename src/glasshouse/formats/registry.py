"""Which format a file is in, by content and then by name, and who reads and writes it.

A row of the table names the functions of one format; they are imported when first used, so that
knowing a format costs nothing.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from glasshouse.errors import FormatError, nearest
from glasshouse.formats.json_kind import json_kind
from glasshouse.formats.python_file import python_file_error
from glasshouse.formats.source import SourceFile
from glasshouse.record.open_file import printable

JSON_HEAD = 1 << 16
FOLDER, FOLDER_HEADS = 10_000, 100
"""Entries of a folder that are looked through, and JSON files in it that are looked into."""


@dataclass(frozen=True)
class Format:
    name: str
    title: str
    extensions: tuple[str, ...]  # of files to write; the longest that fits wins
    reader: str = ""  # "module:function" below glasshouse.formats
    writer: str = ""
    lost: str = ""  # tells what the writer leaves out
    attacher: str = ""  # for files that say something about the nodes of another

    def function(self, which: str) -> Callable[..., Any]:
        module, _, name = which.partition(":")
        found: Callable[..., Any] = getattr(import_module(f"glasshouse.formats.{module}"), name)
        return found


_ME = "model_explorer"
FORMATS: tuple[Format, ...] = (
    Format("glass", "Glasshouse recording", (".glass",), "glass:read", "glass:write"),
    Format("text", "Glasshouse text", (".txt",), "text:read", "text:write", "text:lost"),
    Format("jittor", "Jittor trace", (".pkl",), "jittor.read:read", "jittor.write:write",
           "jittor.write:lost"),
    Format("hidet", "Hidet flow graph", (".hidet.json", ".netron.json"), "hidet.read:read",
           "hidet.write:write", "hidet.write:lost"),
    Format("hidet_folder", "folder of Hidet flow graphs", (), "hidet.read:read_folder"),
    Format(_ME, "Model Explorer graph", (".json",), f"{_ME}.read:read", f"{_ME}.write:write",
           f"{_ME}.write:lost"),
    Format("node_data", "Model Explorer node data", (".nodedata.json",), f"{_ME}.node_data:read",
           f"{_ME}.node_data:write", f"{_ME}.node_data:overlay_names", f"{_ME}.node_data:attach"),
    Format("styler", "Model Explorer styler rules", (".rules.json",), f"{_ME}.rules:read_rules",
           f"{_ME}.rules:write_rules", "", f"{_ME}.rules:attach_rules"),
    Format("sync", "Model Explorer sync mapping", (".sync.json",), f"{_ME}.rules:read_sync",
           f"{_ME}.rules:write_sync", "", f"{_ME}.rules:attach_sync"),
    Format("pt2", "PyTorch exported program", (), "pt2.read:read"),
    Format("onnx", "ONNX model", (".onnx",), "onnx.read:read", "onnx.write:write",
           "onnx.write:lost"),
    Format("pte", "ExecuTorch program", (), "pte:read"),
    Format("tflite", "TFLite model", (), "tflite:read"),
    Format("safetensors", "safetensors weights", (), "safetensors:read"),
    Format("gguf", "GGUF model", (), "gguf:read"),
    Format("openvino", "OpenVINO IR", (), "openvino:read"),
    Format("keras", "Keras model", (), "keras:read"),
    Format("keras_h5", "Keras model in HDF5", (), "keras:read_h5"),
    Format("torchscript", "TorchScript archive", (), "torchscript.read:read"),
    Format("torch_weights", "PyTorch weights", (), "torch_weights:read"),
    Format("coreml", "Core ML model", (), "coreml.read:read"),
    Format("mlir", "MLIR text", (), "mlir.read:read"),
    Format("trace", "Trace Event trace", (".trace.json",), "", "trace_events:write",
           "trace_events:lost"),
    Format("dot", "Graphviz DOT", (".dot", ".gv"), "", "dot:write", "dot:lost"),
    Format("svg", "SVG drawing", (".svg",), "", "svg:write", "svg:lost"),
)  # fmt: skip
BY_NAME = {f.name: f for f in FORMATS}

# Names that decide only where the content does not: formats without a signature.
# Also where a file is too broken to show any: its reader then says what is wrong with it.
_BY_SUFFIX = {
    ".onnx": "onnx", ".pb": "onnx", ".mlir": "mlir", ".stablehlo": "mlir", ".pkl": "jittor",
    ".glass": "glass", ".pt2": "pt2", ".pte": "pte", ".tflite": "tflite", ".json": _ME,
    ".safetensors": "safetensors", ".gguf": "gguf", ".xml": "openvino", ".h5": "keras_h5",
    ".hdf5": "keras_h5", ".keras": "keras", ".mlmodel": "coreml",
}  # fmt: skip


_MODELS = ({*_BY_SUFFIX} - {".json", ".pkl", ".xml", ".pb"}) | {".pt", ".pth", ".bin"}

_CORE_ML = re.compile(rb"\x08[\x00-\x7f]\x12[\x80-\xff]*[\x00-\x7f][\x0a\xa2]", re.DOTALL)


def detect(source: SourceFile) -> Format:
    """The format of a file; FormatError with what is wrong if it has none."""
    if source.is_folder:
        return BY_NAME[_folder(source)]
    name = _by_content(source) or _BY_SUFFIX.get(source.suffix, "")
    if not name and source.suffix == ".py":
        raise python_file_error(source.name, source.text())
    if not name:
        known = ", ".join(f.title for f in FORMATS if f.reader)
        raise source.error(f"not a file that Glasshouse can open; it opens: {known}")
    return BY_NAME[name]


def _folder(source: SourceFile) -> str:
    """The format of a folder; where it has none, an error that tells what in it can be opened."""
    assert source.path is not None
    inside = sorted(islice(source.path.iterdir(), FOLDER))
    if any(path.name == "Manifest.json" for path in inside):
        return "coreml"
    files = [path for path in inside if path.is_file()]
    texts = [path for path in files if path.suffix.lower() == ".json"]
    if any(_json(SourceFile(path)) == "hidet" for path in texts[:FOLDER_HEADS]):
        return "hidet_folder"
    known = [p.name for p in files if p.suffix.lower() in _MODELS]
    shown = ", ".join(printable(name) for name in known[:3])
    more = f" and {len(known) - 3} more" if len(known) > 3 else ""
    raise FormatError(
        f"{source.name}: a folder, and none of a format that is one "
        "(Hidet flow graphs, a Core ML package, a saved module)",
        hint=f"name a file in it: {shown}{more}" if known else "name a model file",
    )


def _by_content(source: SourceFile) -> str:
    head = source.head
    if not head:
        raise source.error("the file is empty")
    if head[:4] == b"PK\x03\x04":
        return _archive(source)
    if head[:15] == b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.":
        raise source.error(
            "a PyTorch file of the kind before version 1.6; write it anew: "
            "torch.save(torch.load(FILE, weights_only=True), FILE)"
        )
    if head[:1] == b"\x80" and b"\x02" <= head[1:2] <= b"\x05":
        return "jittor"
    if head[4:8] == b"TFL3":
        return "tflite"
    if head[4:6] == b"ET" and (head[4:8] == b"ET12" or head[8:10] == b"eh"):
        return "pte"
    if head[:4] == b"GGUF":
        return "gguf"
    if head[:8] == b"\x89HDF\r\n\x1a\n":
        return "keras_h5"
    if head[:4] == b"ML\xefR":
        raise source.error("MLIR bytecode; convert it to text first: mlir-opt FILE -o FILE.mlir")
    if head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= 1 << 28:
        return "safetensors"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] in (b"{", b"["):
        return _json(source)
    if start[:1] == b"<" and b"<net" in start:
        return "openvino"
    if head[:1] == b"\x08" and source.suffix != ".pb":
        # Field 1 of both is a version. Field 2 is the producer's name in ONNX; in Core ML it is a
        # description, which begins with an input (0a), functions or metadata (a2).
        return "coreml" if _CORE_ML.match(head) else "onnx"
    return _text(head)


def _archive(source: SourceFile) -> str:
    try:
        with source.open() as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()[:100_000]
    except (zipfile.BadZipFile, ValueError, OSError, RuntimeError, NotImplementedError) as error:
        raise source.error(f"a ZIP archive that is cut off or damaged ({error})") from None
    if "glass.json" in names:
        return "glass"
    short = {n.partition("/")[2] for n in names} | set(names)
    if "serialized_exported_program.json" in short or any(
        n.startswith("models/") and n.endswith(".json") for n in short
    ):
        return "pt2"
    if "config.json" in names and ("metadata.json" in names or "model.weights.h5" in names):
        return "keras"
    if "data.pkl" in short:
        has_code = any(n.startswith("code/") and n.endswith(".py") for n in short)
        return "torchscript" if has_code else "torch_weights"
    raise source.error("a ZIP archive, but none of a model that Glasshouse knows")


def _json(source: SourceFile) -> str:
    head = source.at(0, JSON_HEAD).decode("utf-8", "replace").lstrip("\ufeff")
    kind = json_kind(head)
    if kind == "pt2":
        return "pt2"
    return kind or _ME


def _text(head: bytes) -> str:
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            return ""
        text = head[: error.start].decode()
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("//", "#"))]
    first = lines[0] if lines else ""
    if first.startswith("Graph("):
        return "text"
    starts = ("module", '"builtin.module"', "func.func", '"func.func"', "builtin.module", "#loc")
    if first.startswith(starts) or "stablehlo." in text:
        return "mlir"
    return ""


def by_extension(name: str) -> Format:
    """The format to write for a file name: the longest extension that fits."""
    low = name.lower()
    fitting = [(len(e), f) for f in FORMATS if f.writer for e in f.extensions if low.endswith(e)]
    if not fitting:
        known = [e for f in FORMATS if f.writer for e in f.extensions]
        raise FormatError(
            f"{name}: no format is written with this extension",
            hint=nearest(Path(low).suffix, known),
        )
    return max(fitting, key=lambda x: x[0])[1]
