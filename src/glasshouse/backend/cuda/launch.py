"""What one kernel of kernel IR becomes on a GPU: a file of functions, and how each is launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glasshouse.backend.cuda.sizes import dim_json
from glasshouse.ir.dim import Dim
from glasshouse.lower.kernel.statement import Ops

CONTEXT = 4
"""Words of `gh::Context`, the first parameter of every function: faults, counters, step, times."""


@dataclass(frozen=True)
class Launch:
    """One `__global__` function and its grid; functions of a kernel run in order."""

    function: str
    grid: tuple[Dim, Dim, Dim]
    threads: int  # of a block
    shared: int = 0  # bytes of shared memory that a block asks for
    counters: Dim = 0  # of blocks that wait for each other; 0 between launches
    cluster: tuple[int, int] = (1, 1)  # blocks of a cluster, as the function's text says it
    maps: tuple[Mapping[str, Any], ...] = ()  # its last parameters (`tensor_map.map_json`)
    library: Mapping[str, Any] | None = None  # a call of a library instead (`cublaslt.py`)
    clock: bool = False  # runs in profiles alone, and does nothing but note the time


def launch_json(launch: Launch) -> dict[str, Any]:
    """A launch as the plan has it."""
    special: dict[str, Any] = {"library": launch.library} if launch.library is not None else {}
    special |= {"clock": True} if launch.clock else {}
    return special | {
        "function": launch.function, "grid": [dim_json(d) for d in launch.grid],
        "threads": launch.threads, "shared": launch.shared,
        "counters": dim_json(launch.counters), "maps": list(launch.maps),
    }  # fmt: skip


@dataclass(frozen=True)
class CudaKernel:
    """The text of a kernel with the ops of each line, its launches, and the symbols it is given."""

    name: str
    text: str
    lines: tuple[Ops, ...]
    launches: tuple[Launch, ...]
    symbols: tuple[str, ...]
