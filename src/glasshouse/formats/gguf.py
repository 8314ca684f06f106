"""GGUF models (llama.cpp): metadata and the list of tensors as a tree of modules, no data read.

A file is a header, key and value pairs, tensor infos, and the data. Vocabularies of some hundred
thousand strings stand among the pairs, so the head is read through a window, piece by piece.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from typing import IO

from glasshouse.formats.source import SourceFile
from glasshouse.formats.weights import Weights
from glasshouse.record import Recording, RecordingBuilder

GENERATOR = "gguf"
WINDOW = 1 << 20
MAX_NAME = 1 << 16  # llama.cpp takes 64 bytes for a tensor, 65,535 for a key
MAX_TEXT = 2_000  # characters of a value that are shown
MAX_SHOWN = 8
MAX_DIMS = 8  # GGML has 4

_NUMBERS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9

# Name, values in a block, bytes of a block, by GGML's number. Plain types go by our names.
_TYPES = {
    0: ("float32", 1, 4), 1: ("float16", 1, 2), 2: ("q4_0", 32, 18), 3: ("q4_1", 32, 20),
    6: ("q5_0", 32, 22), 7: ("q5_1", 32, 24), 8: ("q8_0", 32, 34), 9: ("q8_1", 32, 36),
    10: ("q2_k", 256, 84), 11: ("q3_k", 256, 110), 12: ("q4_k", 256, 144), 13: ("q5_k", 256, 176),
    14: ("q6_k", 256, 210), 15: ("q8_k", 256, 292), 16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74), 18: ("iq3_xxs", 256, 98), 19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18), 21: ("iq3_s", 256, 110), 22: ("iq2_s", 256, 82),
    23: ("iq4_xs", 256, 136), 24: ("int8", 1, 1), 25: ("int16", 1, 2), 26: ("int32", 1, 4),
    27: ("int64", 1, 8), 28: ("float64", 1, 8), 29: ("iq1_m", 256, 56), 30: ("bfloat16", 1, 2),
    34: ("tq1_0", 256, 54), 35: ("tq2_0", 256, 66), 39: ("mxfp4", 32, 17), 40: ("nvfp4", 64, 36),
}  # fmt: skip


def read(source: SourceFile) -> Recording:
    """The recording of a `.gguf` file."""
    with source.open() as file:
        head = _Head(source, file)
        if head.take(4) != b"GGUF":
            raise source.error("not a GGUF file")
        version = head.open_version()
        tensors, pairs = head.count("tensors"), head.count("metadata entries")
        metadata = {}
        for _ in range(pairs):
            key = head.string(MAX_NAME)
            metadata[key] = head.value(head.integer("I"))
        infos = [_info(head) for _ in range(tensors)]
        end = head.position
    alignment = metadata.get("general.alignment", "")
    step = int(alignment) if alignment.isdecimal() and 0 < int(alignment[:9]) < 2**20 else 32
    start = -(-end // step) * step
    weights = Weights()
    kinds: Counter[str] = Counter()
    for name, shape, number, offset in infos:
        dtype, block, size = _TYPES.get(number, (f"ggml_{number}", 0, 0))
        stored = math.prod(shape) // block * size if block else 0
        if start + offset + stored > source.size:
            raise source.error(f"tensor {name[:80]!r} lies outside the file; it may be cut off")
        # GGML lists the fastest dimension first, everybody else last.
        weights.add(name, dtype, shape[::-1], stored, start + offset)
        kinds[dtype] += 1
    made = RecordingBuilder(metadata.get("general.name") or source.stem, GENERATOR, source.budget)
    weights.write(made, source.stem)
    made.graphs[0].attrs.update(metadata)
    made.facts["version"] = str(version)
    for fact in ("architecture", "size_label", "license"):
        if f"general.{fact}" in metadata:
            made.facts[fact.replace("_", " ")] = metadata[f"general.{fact}"]
    prefix = metadata.get("general.architecture", "") + "."
    for fact in ("block_count", "context_length", "embedding_length", "attention.head_count"):
        if prefix + fact in metadata:
            made.facts[fact.rpartition(".")[2].replace("_", " ")] = metadata[prefix + fact]
    made.facts["types"] = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return made.finish()


def _info(head: _Head) -> tuple[str, list[int], int, int]:
    """Name, dimensions, type and offset of one tensor."""
    name = head.string(MAX_NAME)
    rank = head.integer("I")
    if rank > MAX_DIMS:
        raise head.source.error(f"tensor {name[:80]!r} has {rank} dimensions; the file is damaged")
    shape = [head.integer(head.size) for _ in range(rank)]
    return name, shape, head.integer("I"), head.integer("Q")


class _Head:
    """A window that moves over the head of a file."""

    def __init__(self, source: SourceFile, file: IO[bytes]) -> None:
        self.source = source
        self.file = file
        self.window = b""
        self.start = 0  # of the window, in the file
        self.position = 0
        self.order = "<"
        self.size = "Q"  # how counts and lengths are written; 4 bytes in version 1
        source.budget.place = lambda: f"byte {self.position}"

    def open_version(self) -> int:
        raw = self.take(4)
        version = int.from_bytes(raw, "little")
        if version & 0xFFFF == 0:  # the file of a big-endian machine
            self.order = ">"
            version = int.from_bytes(raw, "big")
        if not 1 <= version <= 3:
            raise self.source.error(f"GGUF version {version}, which nobody has described yet")
        self.size = "I" if version == 1 else "Q"
        return version

    def take(self, size: int) -> bytes:
        at = self.position - self.start
        if not 0 <= at <= at + size <= len(self.window):
            self._need(size)
            self.file.seek(self.position)
            self.window = self.file.read(max(size, WINDOW))
            self.start, at = self.position, 0
            if len(self.window) < size:
                raise self.source.error("cut off within its metadata")
        self.position += size
        return self.window[at : at + size]

    def skip(self, size: int) -> None:
        self._need(size)
        self.position += size

    def _need(self, size: int) -> None:
        if self.position + size > self.source.size:
            raise self.source.error(
                f"cut off or damaged: {size:,} bytes are said to follow at byte {self.position:,}"
            )

    def number(self, layout: str) -> int | float | bool:
        code = self.order + layout
        value: int | float | bool = struct.unpack(code, self.take(struct.calcsize(code)))[0]
        return value

    def integer(self, layout: str) -> int:
        return int(self.number(layout))

    def count(self, what: str) -> int:
        """How many of something follow; each takes 12 bytes at least."""
        count = self.integer(self.size)
        if count * 12 > self.source.size:
            raise self.source.error(f"says to have {count:,} {what}, more than fit into the file")
        self.source.budget.spend("items", count)
        return count

    def string(self, limit: int) -> str:
        size = self.integer(self.size)
        kept = min(size, limit)
        text = self.take(kept).decode("utf-8", "replace")
        self.skip(size - kept)
        return text

    def value(self, kind: int) -> str:
        """A value as it is shown."""
        if kind == _STRING:
            return _shown(self.string(4 * MAX_TEXT))
        if kind != _ARRAY:
            return self.plain(kind)
        kind, count = self.integer("I"), self.integer(self.size)
        if kind == _ARRAY:
            raise self.source.error("a list of lists in the metadata, which no program writes")
        if kind != _STRING and kind not in _NUMBERS:
            raise self.source.error(f"a value of the unknown type {kind}; the file is damaged")
        width = struct.calcsize("=" + _NUMBERS.get(kind, self.size))  # of a string: its length
        self._need(count * width)
        shown = [
            repr(self.string(80)) if kind == _STRING else self.plain(kind)
            for _ in range(min(count, MAX_SHOWN))
        ]
        rest = count - len(shown)
        if kind == _STRING:
            for _ in range(rest):
                self.source.budget.spend("items")
                self.skip(self.integer(self.size))
        else:
            self.skip(rest * width)
        return f"[{', '.join(shown)}{f', ... ({count:,})' if rest else ''}]"

    def plain(self, kind: int) -> str:
        if kind not in _NUMBERS:
            raise self.source.error(f"a value of the unknown type {kind}; the file is damaged")
        value = self.number(_NUMBERS[kind])
        return f"{value:.7g}" if _NUMBERS[kind] == "f" else str(value)


def _shown(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ... ({len(text):,} characters)"
