"""`aitemplate.testing.benchmark_pt`: times of PyTorch functions."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from glasshouse.compat.missing import names_what_is_there

_WARM_UP = 5


def benchmark_torch_function(
    iters: int, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> float:
    """Milliseconds a call, the mean of `iters` after five to warm up."""
    for _ in range(_WARM_UP):
        function(*args, **kwargs)
    _wait()
    begin = time.perf_counter()
    for _ in range(max(iters, 1)):
        function(*args, **kwargs)
    _wait()
    return (time.perf_counter() - begin) * 1e3 / max(iters, 1)


def _wait() -> None:
    """For a GPU, which works on when functions have returned."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


__all__ = ["benchmark_torch_function"]
__getattr__ = names_what_is_there("aitemplate.testing.benchmark_pt", __all__)
