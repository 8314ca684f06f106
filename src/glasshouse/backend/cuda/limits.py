"""What a GPU can do at best: bandwidth measured once with copies, compute from its figures."""

from __future__ import annotations

from functools import lru_cache

from glasshouse.backend.base import Limits
from glasshouse.backend.cuda.device import Gpu

_BYTES = 1 << 30
_CLOCK_RATE = 13  # CU_DEVICE_ATTRIBUTE_CLOCK_RATE, kHz
# Operations of a multiprocessor in one cycle: float32 by plain units, halves by tensor cores.
_PER_CYCLE = {80: (128, 2048), 86: (256, 1024), 89: (256, 1024), 90: (256, 4096), 100: (256, 8192)}


@lru_cache(maxsize=8)
def measured_limits(device: Gpu) -> Limits:
    """Copies of 1 GB inside the GPU; the best of five."""
    device.enter()
    first, second = device.allocate(_BYTES), device.allocate(_BYTES)
    try:
        seconds: list[float] = []
        for _ in range(5):
            with device.timed() as taken:
                device.copy(first, second, _BYTES)
            seconds.append(taken())
    finally:
        device.free(first)
        device.free(second)
    copy = 2 * _BYTES / min(seconds)
    known = max(n for n in _PER_CYCLE if n <= device.capability)
    hertz = device.attribute(_CLOCK_RATE) * 1e3
    plain, tensor = (per * device.processors * hertz for per in _PER_CYCLE[known])
    compute = {"float32": plain, "float16": tensor, "bfloat16": tensor, "float64": plain / 2}
    compute |= {"int8": 2 * tensor} | ({"float8": 2 * tensor} if known >= 89 else {})
    return Limits(compute, copy, copy)
