"""Whose processor time counts: of this process and all it has started, or the machine."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def machine_seconds() -> float:
    """Processor time that all of the machine has used, and what its host took away."""
    ticks = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(ticks[:3]) + sum(ticks[5:8])) / TICKS


def _words(stat: Path) -> list[str]:
    """What the kernel says of a process or thread, from its state on; nothing when it has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _family() -> dict[int, list[str]]:
    """This process and all that it has started: browser, servers, driver."""
    known = {int(p.name): _words(p / "stat") for p in Path("/proc").iterdir() if p.name.isdigit()}
    parents = {pid: int(words[1]) for pid, words in known.items() if words}
    mine, out = os.getpid(), {}
    for pid in parents:
        at = pid
        while at != mine and at in parents:
            at = parents[at]
        if at == mine:
            out[pid] = known[pid]
    return out


def own_seconds(without_self: bool = False) -> float:
    """Processor time of all that this process has started, and of itself."""
    family = _family()
    if without_self:
        family.pop(os.getpid())
    return sum(sum(int(w) for w in words[11:15]) for words in family.values()) / TICKS


def wants_to_run() -> bool:
    """Whether something that this process has started runs, or waits for a processor to run on.

    On a busy machine that is not the same as using time.
    """
    others = [pid for pid in _family() if pid != os.getpid()]
    threads = (thread for pid in others for thread in Path(f"/proc/{pid}/task").glob("*/stat"))
    return any(_words(thread)[:1] == ["R"] for thread in threads)
