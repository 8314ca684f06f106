"""Whether kernels of a program overlap at their ends: found by timing, kept on disk by program,
chip and driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from glasshouse.backend.cache import hash_text, write_whole
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.cuda.device import Gpu
from glasshouse.backend.store import fetch, publish

_TURNS, _REPLAYS, _WHOLE = 3, 5, 1e-3
"""How often each way is timed, and over how many runs, since one of a small program is shorter than
its way there; over one where it takes so many seconds: the 30 of a prompt of 512 words through a
Llama of 1.1 billion took 55 ms of its first result."""
_MOST_TURNS, _ENOUGH = 40, 0.03
"""Small programs are timed more often, until so many seconds are spent: other processes on the GPU
take slices of its time, and an MLP of 512 rows was found 6 % faster without overlap where it is 6 %
slower. Of one of 1024 rows, which 40 turns take 7 ms, overlap brings 3 to 5 %."""


class Succession(Enum):
    """How the nodes of a graph follow one another."""

    APART = "nodes"
    OVERLAPPING = "nodes that overlap"


class Startable(Protocol):
    """A graph of a run."""

    def launch(self, stream: int) -> None:
        """Start it once more."""


def timed(device: Gpu, started: Mapping[Succession, Startable]) -> dict[Succession, float]:
    """Seconds of a run in each way, the least of some turns; all have been started once."""
    seconds = dict.fromkeys(started, float("inf"))
    spent, replays = 0.0, 1  # the first turn tells how long a run is
    for turn in range(_MOST_TURNS):
        if turn >= _TURNS and (spent > _ENOUGH or replays == 1):
            break
        for way, run in started.items():
            with device.timed() as taken:
                for _ in range(replays):
                    run.launch(device.stream)
            seconds[way] = min(seconds[way], taken() / replays)
            spent += taken()
        replays = _REPLAYS if max(seconds.values()) < _WHOLE else 1
    return seconds


# ------------------------------------------------------------------------------------- kept on disk
def file_of(device: Gpu, program: str, where: Any) -> Path:
    """Where the seconds of a program's run are kept; `program` stands for all of its code, `where`
    for the steps and sizes."""
    key = hash_text(f"{program} {device.name} driver {device.driver_version} {where}")
    return made_cache_folder() / f"ways-{key}.json"


def read(file: Path) -> dict[Succession, float] | None:
    """What is known; None where nothing is."""
    try:
        if not file.exists():
            fetch(file)
        found = {
            Succession(name): float(spent) for name, spent in json.loads(file.read_text()).items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return found if found.keys() == set(Succession) else None


def write(file: Path, seconds: Mapping[Succession, float]) -> None:
    write_whole(file, json.dumps({way.value: spent for way, spent in seconds.items()}))
    publish(file)
