"""How a recording's own file fits among the formats."""

from __future__ import annotations

from glasshouse.formats.source import SourceFile
from glasshouse.record import Recording


def read(source: SourceFile) -> Recording:
    """A `.glass` file, opened lazily."""
    given = source.path if source.path is not None else source.data()
    return Recording.open(given, source.name)


def write(recording: Recording) -> bytes:
    return recording.to_bytes()
