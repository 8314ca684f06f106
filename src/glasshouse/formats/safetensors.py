"""How safetensors weights are seen: a tree of modules with their tensors, no data read.

A file is a length (u64), a JSON header of that length, and the data; only the header is read.
"""

from __future__ import annotations

from typing import Any

from glasshouse.formats.json_stream import read_json
from glasshouse.formats.source import SourceFile
from glasshouse.formats.weights import Weights
from glasshouse.record import Recording, RecordingBuilder

GENERATOR = "safetensors"
MAX_HEADER = 256 << 20
_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32",
    "U16": "uint16", "U8": "uint8", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "C64": "complex64",
}  # fmt: skip


def read(source: SourceFile) -> Recording:
    """The recording of a `.safetensors` file."""
    length = int.from_bytes(source.at(0, 8), "little")
    if not 2 <= length <= min(MAX_HEADER, source.size - 8):
        raise source.error("not a safetensors file, or cut off (the header does not fit)")
    header = read_json(SourceFile(source.at(8, length), source.name, source.budget))
    if not isinstance(header, dict):
        raise source.error("not a safetensors file (the header is no object)")
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    metadata = header.pop("__metadata__", None)
    room = source.size - 8 - length
    weights = Weights()
    for name, entry in header.items():
        dtype, shape, start, end = _entry(source, name, entry, room)
        weights.add(name, dtype, shape, end - start, 8 + length + start)
    weights.write(made, source.stem)
    if isinstance(metadata, dict):
        made.graphs[0].attrs.update({k: v for k, v in metadata.items() if isinstance(v, str)})
    return made.finish()


def _entry(source: SourceFile, name: str, entry: Any, room: int) -> tuple[str, list[int], int, int]:
    known: dict[str, Any] = entry if isinstance(entry, dict) else {}
    shape: Any = known.get("shape")
    place: Any = known.get("data_offsets")
    if not _counts(shape) or not _counts(place) or len(place) != 2:
        raise source.error(f"tensor {name[:80]!r} has no usable shape and data_offsets")
    start, end = place
    if not start <= end <= room:
        raise source.error(f"tensor {name[:80]!r} lies outside the file; it may be cut off")
    said = known.get("dtype")
    dtype = _NAMES.get(said, said) if isinstance(said, str) else "unknown"
    return dtype, shape, start, end


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 2**63 for v in value)
