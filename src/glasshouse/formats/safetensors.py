"""How safetensors weights are seen: a tree of modules with their tensors, no data read.

A file is a length (u64), a JSON header of that length, and the data; only the header is read.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from glasshouse.formats.json_stream import read_json
from glasshouse.formats.source import Source
from glasshouse.record import GraphBuilder, Recording, RecordingBuilder
from glasshouse.record.schema import NEVER, DataRow

GENERATOR = "safetensors"
MAX_HEADER = 256 << 20
_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32",
    "U16": "uint16", "U8": "uint8", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "C64": "complex64",
}  # fmt: skip


def read(source: Source) -> Recording:
    """The recording of a `.safetensors` file."""
    length = int.from_bytes(source.at(0, 8), "little")
    if not 2 <= length <= min(MAX_HEADER, source.size - 8):
        raise source.error("not a safetensors file, or cut off (the header does not fit)")
    header = read_json(Source(source.at(8, length), source.name, source.budget))
    if not isinstance(header, dict):
        raise source.error("not a safetensors file (the header is no object)")
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    graph = made.graph(source.stem)
    graph.stage("weights")
    metadata = header.pop("__metadata__", None)
    if isinstance(metadata, dict):
        graph.attrs.update({k: v for k, v in metadata.items() if isinstance(v, str)})
    room = source.size - 8 - length
    count = 0
    types, sizes, offsets, groups = [], [], [], []
    for name, entry in header.items():
        kind, start, end, values = _entry(source, name, entry, room)
        types.append(kind)
        sizes.append(end - start)
        offsets.append(8 + length + start)
        groups.append(graph.group_path("module", name.split(".")[:-1]))
        count += values
    total = sum(sizes)
    _add_tensors(made, graph, list(header), types, sizes, offsets, groups)
    made.facts |= {"tensors": str(len(header)), "bytes": str(total), "parameters": str(count)}
    return made.finish()


def _add_tensors(
    made: RecordingBuilder,
    graph: GraphBuilder,
    names: list[str],
    types: list[str],
    sizes: list[int],
    offsets: list[int],
    groups: list[int],
) -> None:
    """Add all tensors at once, column by column: files of experts have some hundred thousand."""
    rows = len(names)
    one = np.ones(rows, np.int64)
    name, rank = made.indices(names), np.array(groups, np.int64)
    texts = [text for pair in zip(map(str, sizes), map(str, offsets), strict=True) for text in pair]
    graph.nodes(
        {
            "id": np.arange(rows),
            "name": name,
            "op": np.full(rows, made.strings.index("Tensor")),
            "kind": np.full(rows, made.strings.index("source")),
            "outputs": (one, made.indices(types)),
            "output_names": (one, name),
            "attr_keys": (2 * one, np.tile(made.indices(["bytes", "offset"]), rows)),
            "attr_values": (2 * one, made.indices(texts)),
            "groups": ((rank != NEVER).astype(np.int64), rank[rank != NEVER]),
        }
    )
    data = {
        "name": np.full(rows, made.strings.index("bytes")),
        "node": np.arange(rows),
        "number": np.array(sizes, np.float64),
    }
    graph.extend(DataRow, rows, data)


def _entry(source: Source, name: str, entry: Any, room: int) -> tuple[str, int, int, int]:
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
    return f"{dtype}[{', '.join(map(str, shape))}]", start, end, min(math.prod(shape[:64]), 2**63)


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 2**63 for v in value)
