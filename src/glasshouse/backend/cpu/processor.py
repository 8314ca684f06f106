"""Which instruction sets this processor has."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

# Those that kernels may use.
_FEATURES = ("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_vnni")


@lru_cache(maxsize=1)
def processor_features() -> tuple[str, ...]:
    """Those that kernels may use; where one cannot look, none."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ()
    flags = next((x for x in text.splitlines() if x.startswith("flags")), "").split()
    return tuple(f for f in _FEATURES if f in flags)
