"""Limits on what a reader may make of a file that nobody vouches for: one table for all formats.

A few hundred bytes can claim billions of rows, inflate to gigabytes or refer to one list a million
times over. A `Budget` belongs to one file; whoever decodes something of it spends first and
allocates afterwards. Whoever has an honest file past a limit lifts it by name:

    GLASSHOUSE_LIMITS=rows=2e9,seconds=0 glasshouse view huge.glass      (0: no limit)
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from glasshouse.errors import GlasshouseError, LimitExceeded

VARIABLE = "GLASSHOUSE_LIMITS"
OBJECT = 64
"""Bytes that a small Python object takes."""
_CLOCK_EVERY = 4096
"""How many entries pass between two looks at the clock: some milliseconds of reading."""


@dataclass(frozen=True)
class ReadLimits:
    """The limits; those marked "or" grow with the file, so that an honest large one never meets
    them: it spends bytes of its own for each row."""

    file_bytes: float = 4 << 30
    """Of a file that is read whole; archives, weights and recordings are read in parts."""

    decoded_bytes: float = 512 << 20
    """What inflating, decoding and parsing makes; or 64 times the file. Recordings of real models
    decode to 10 to 30 times their size; deflate alone reaches 1,032."""

    rows: float = 2_000_000
    """Rows of all tables; or one for each byte of the file. Each may cost a writer a kilobyte."""

    objects: float = 30_000_000
    """Lists and dicts of JSON and pickles: some 2 GB of them. A small file has fewer: a million and
    16 for each byte (JSON packs twentyfold and has a bracket in every ten bytes)."""

    items: float = 100_000
    """Entries of lists, counted whenever a file mentions them; or eight for each byte, so that
    lists which a file shares with itself do not unfold."""

    names: float = 50_000_000
    """Parts of the paths that name groups, of all nodes together: a million nodes, fifty deep."""

    depth: float = 1_000
    """Groups in groups, graphs in graphs. Real models have some forty; the viewer draws each level
    as a box in a box."""

    graphs: float = 20_000
    """Graphs and stages; or one for each 250 bytes of the file. A body takes 600 bytes of an honest
    recording, and a reader a quarter of a millisecond."""

    seconds: float = 300.0
    """Of reading one file, looked at between entries. A million nodes take some ten."""

    @staticmethod
    def from_environment() -> ReadLimits:
        """The limits with what the environment changes."""
        said = os.environ.get(VARIABLE, "")
        known = {f.name for f in dataclasses.fields(ReadLimits)}
        changed: dict[str, float] = {}
        for part in filter(None, map(str.strip, said.split(","))):
            name, _, number = part.partition("=")
            try:
                value = float(number)
            except ValueError:
                value = math.nan
            if name.strip() not in known or not value >= 0:
                raise GlasshouseError(
                    f"{VARIABLE}: {part[:80]!r} is no limit",
                    hint=f"write NAME=NUMBER, 0 for none; names: {', '.join(sorted(known))}",
                )
            changed[name.strip()] = value or math.inf
        return ReadLimits(**changed)


_GROWS = {"decoded_bytes": 64.0, "rows": 1.0, "items": 8.0, "graphs": 1 / 250}
"""What a byte of the file adds: the larger of this and the fixed limit counts."""

_WORDS = {
    "file_bytes": "bytes read whole",
    "decoded_bytes": "bytes when decoded",
    "rows": "rows",
    "objects": "lists and objects",
    "items": "entries, counting those that it refers to again",
    "names": "parts of names",
    "depth": "levels of nesting",
    "graphs": "graphs and stages",
}


class Budget:
    """What one file may still cost."""

    def __init__(
        self,
        where: str,
        size: int,
        limits: ReadLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.where = where
        self.limits = limits or ReadLimits.from_environment()
        self.place: Callable[[], str] = str  # where in the file the reader is: "byte 17"
        self._clock = clock
        self._ends = clock() + self.limits.seconds
        self._until_clock = _CLOCK_EVERY
        self._left = {
            name: max(getattr(self.limits, name), _GROWS.get(name, 0.0) * size) for name in _WORDS
        }
        self._left["objects"] = min(self.limits.objects, 1e6 + 16.0 * size)
        if self.limits.objects == math.inf:
            self._left["objects"] = math.inf
        self._limit = dict(self._left)

    def spend(self, what: str, amount: float = 1) -> None:
        """Take from one limit; LimitExceeded, with how to lift it, when it is used up."""
        left = self._left[what] - amount
        self._left[what] = left
        if left < 0:
            self._exceeded(what, self._limit[what] - left)
        self._until_clock -= 1
        if self._until_clock <= 0:
            self.check_time()

    def within(self, what: str, amount: float) -> None:
        """Hold a single figure against a limit without using it up: a depth, a file's size."""
        if amount > self._limit[what]:
            self._exceeded(what, amount)

    def check_time(self) -> None:
        self._until_clock = _CLOCK_EVERY
        if self._clock() > self._ends:
            raise LimitExceeded(
                f"{self.where}: reading it took more than {self.limits.seconds:g} seconds",
                self.place(),
                f"if you trust the file: {VARIABLE}=seconds=0",
            )

    def _exceeded(self, what: str, amount: float) -> None:
        raise LimitExceeded(
            f"{self.where}: asks for {amount:,.0f} {_WORDS[what]}; a file of this size may have "
            f"{self._limit[what]:,.0f}",
            self.place(),
            f"if you trust the file: {VARIABLE}={what}=0",
        )


def unlimited(where: str = "") -> Budget:
    """For what this process makes itself."""
    return Budget(where, 0, ReadLimits(*[math.inf] * len(dataclasses.fields(ReadLimits))))
