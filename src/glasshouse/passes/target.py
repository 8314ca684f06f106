"""Decides what passes assume about the machine: enough to compare two ways to compute something."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from glasshouse.errors import Unsupported


@dataclass(frozen=True)
class Target:
    """Rough figures of a machine; a backend that has measured passes its own."""

    name: str
    cores: int
    operations: float  # float32 operations a second, all cores
    bandwidth: float  # bytes a second from main memory
    launch: float  # seconds to start one kernel
    low_precision: tuple[str, ...] = ()  # element types in which contractions are faster

    @property
    def operations_per_byte(self) -> float:
        """Operations that take as long as moving one byte."""
        return self.operations / self.bandwidth

    @property
    def launch_bytes(self) -> float:
        """Bytes that move in the time in which a kernel starts."""
        return self.launch * self.bandwidth

    def seconds(self, operations: float, bytes: float, efficiency: float = 1.0) -> float:
        """The roofline: what takes longer, computing or moving; and the launch."""
        return (
            max(operations / (self.operations * efficiency), bytes / self.bandwidth) + self.launch
        )


@lru_cache(maxsize=8)
def _has(feature: str) -> bool:
    """Whether this processor has an instruction set; where one cannot look, it has not."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return False
    return any(feature in line.split() for line in lines if line.startswith("flags"))


def target_named(name: str) -> Target:
    """A target by name. The figures are typical, not measured: 50 Gop/s and 12 GB/s for a core."""
    if name == "cpu":
        cores = os.cpu_count() or 1
        low = ("bfloat16",) if _has("avx512_bf16") else ()
        return Target("cpu", cores, 50e9 * cores, 12e9 * min(cores, 8), 2e-6, low)
    if name == "cuda":
        return Target("cuda", 128, 40e12, 2e12, 5e-6, ("float16", "bfloat16"))
    raise Unsupported(f"there is no target {name!r}", hint="known: cpu, cuda; or give a Target")
