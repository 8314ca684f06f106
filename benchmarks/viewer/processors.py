"""Decides whose processor time counts: of this process and all it has started, or the machine."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def machine_seconds() -> float:
    """Processor time that all of the machine has used, and what its host took away."""
    ticks = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(ticks[:3]) + sum(ticks[5:8])) / TICKS


def own_seconds() -> float:
    """Processor time of this process and of all that it has started: browser, servers."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            words = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(entry.name)] = int(words[1])
        used[int(entry.name)] = sum(int(w) for w in words[11:15]) / TICKS
    mine, total = os.getpid(), 0.0
    for pid, seconds in used.items():
        at = pid
        while at != mine and at in parents:
            at = parents[at]
        total += seconds if at == mine else 0.0
    return total
