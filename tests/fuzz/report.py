"""What a campaign tells the driver: each case that it tries, and each fault that it finds.

A campaign is a file in this folder with

    NAME: str
    def run(seed: int, until: float, report: Report) -> None

`run` tries cases until `time.monotonic() >= until`. Everything that is told lies in files at once,
so that a campaign that is killed or crashes has said what it was doing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

_ROOM = 4096  # bytes of the note that every case writes over


class Report:
    """Cases and findings of one campaign, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.cases = 0
        self._findings = folder / "findings.jsonl"
        self._note = os.open(folder / "case.json", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def case(self, what: str = "") -> None:
        """A case begins; should it end the process, `what` (best: how to repeat it) is told."""
        self.cases += 1
        note = json.dumps({"cases": self.cases, "what": what[: _ROOM // 8]})
        os.pwrite(self._note, note.encode().ljust(_ROOM), 0)

    def found(self, title: str, detail: str, reproduce: str) -> None:
        """A fault. Faults with the same title are counted and shown once."""
        row = {"title": title, "detail": detail, "reproduce": reproduce}
        with self._findings.open("a") as out:
            out.write(json.dumps(row) + "\n")
