"""How ATen's samples of volumes at computed places are spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.grid import sampled
from glasshouse.frontend.torch.aten.registry import aten

_MODES = ("linear", "nearest", "cubic")
_BORDERS = ("zeros", "border", "reflection")


@aten("grid_sampler_3d")
def grid_sampler_3d(x: Any, grid: Any, mode: int, border: int, corners: bool) -> Any:
    return sampled(x, grid, _MODES[mode], _BORDERS[border], corners)
