"""How ATen's samples of images and volumes at computed places are spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.grid import sampled
from glasshouse.frontend.torch.aten.registry import Context, aten

_MODES = ("linear", "nearest", "cubic")
_BORDERS = ("zeros", "border", "reflection")


@aten(
    "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "_grid_sampler_2d_cpu_fallback",
    context=True,
)  # fmt: skip
def grid_sampler(ctx: Context, x: Any, grid: Any, mode: int, border: int, corners: bool) -> Any:
    val = ctx.fx_node.meta.get("val")
    on_cpu = getattr(val, "device", None) is None or val.device.type == "cpu"
    return sampled(x, grid, _MODES[mode], _BORDERS[border], corners, bags=on_cpu)
