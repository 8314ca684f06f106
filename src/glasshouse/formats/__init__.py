"""Foreign formats into and out of recordings: `read`, `write`, `attach`, `detect`."""

from __future__ import annotations

import os
from pathlib import Path

from glasshouse.collection import no_collection
from glasshouse.errors import FormatError, nearest
from glasshouse.formats.registry import BY_NAME, FORMATS, Format, by_extension
from glasshouse.formats.registry import detect as _detect
from glasshouse.formats.source import SourceFile
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.boundary import boundary
from glasshouse.record.container import write_atomic

__all__ = ["FORMATS", "Format", "attach", "detect", "dump", "read", "write"]

Given = str | os.PathLike[str] | bytes


def detect(given: Given, name: str = "") -> str:
    """The name of the format of a file or of bytes, by content and then by name."""
    source = SourceFile(given, name)
    with boundary(source.name, "read", source.budget):
        return _detect(source).name


def read(given: Given, name: str = "", *, format: str = "") -> Recording:
    """A recording of any known file, folder or bytes; FormatError in one line if it is none."""
    source = SourceFile(given, name)
    with boundary(source.name, "read", source.budget), no_collection():
        chosen = _named(format) if format else _detect(source)
        if not chosen.reader:
            raise source.error(f"{chosen.title} files are written, not read")
        recording: Recording = chosen.function(chosen.reader)(source)
        return recording


def attach(recording: Recording, given: Given, name: str = "") -> Recording:
    """The recording with what another file says of its nodes: data, style rules, a mapping."""
    source = SourceFile(given, name)
    with boundary(source.name, f"laid over {recording.where}", source.budget):
        chosen = _detect(source)
        if not chosen.attacher:
            raise source.error(f"a {chosen.title} cannot be laid over another graph")
        made = RecordingBuilder.of(recording)
        chosen.function(chosen.attacher)(source, recording, made)
        return made.finish()


def dump(recording: Recording, format: str) -> bytes:
    """The bytes of a recording in another format, by the format's name."""
    chosen = _named(format)
    if not chosen.writer:
        raise FormatError(f"{chosen.title} files are read, not written")
    with boundary(recording.where, f"written as {chosen.title}"):
        data: bytes = chosen.function(chosen.writer)(recording)
        return data


def write(recording: Recording, path: str | os.PathLike[str], *, format: str = "") -> list[str]:
    """Write a recording by the file's extension; returns what that format could not hold."""
    chosen = _named(format) if format else by_extension(Path(path).name)
    data = dump(recording, chosen.name)
    with boundary(str(path), "written"):
        write_atomic(path, data)
    with boundary(recording.where, f"written as {chosen.title}"):
        lost: list[str] = chosen.function(chosen.lost)(recording) if chosen.lost else []
        return lost


def _named(name: str) -> Format:
    if name not in BY_NAME:
        raise FormatError(f"no format is called {name!r}", hint=nearest(name, BY_NAME))
    return BY_NAME[name]
