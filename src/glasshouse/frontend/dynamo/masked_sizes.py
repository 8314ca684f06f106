"""Lets Dynamo capture what has as many elements as data say (`x[mask]`, `nonzero`) for us.

Left to itself it breaks the graph at each of them: a flow that writes `out[mask] = f(x[mask])` is
some ten graphs then, each with its guards, which takes longer than plain PyTorch. Training keeps
the break: a relational graph network whose twelve relations are masks took twice eager's time as
one graph with its gradient, where the break leaves the loop to PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import torch

from glasshouse.frontend.dynamo.settings import set_while_captured


def capture_masked_sizes(backend: Callable[..., Any]) -> None:
    """Capture them whenever Dynamo works for this backend without gradients, from now on."""
    setting = "capture_dynamic_output_shape_ops"
    set_while_captured(backend, setting, _sizes_may_be_data)


def _sizes_may_be_data(code: CodeType | None, _: object) -> bool:
    makes_lists = code is not None and "tolist" in code.co_names
    return not (torch.is_grad_enabled() or makes_lists)
