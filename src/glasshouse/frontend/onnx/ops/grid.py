"""How ONNX's GridSample is spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.grid import sampled
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import spell

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@spell("GridSample")
def grid_sample(c: OnnxCall) -> Any:
    mode = c.attr("mode", "linear")
    border, corners = c.attr("padding_mode", "zeros"), bool(c.attr("align_corners", 0))
    return sampled(c[0], c[1], _MODES.get(mode, mode), border, corners)
