"""Lets Dynamo capture what has as many elements as data say (`x[mask]`, `nonzero`) for us.

Left to itself it breaks the graph at each of them: a flow that writes `out[mask] = f(x[mask])` is
some ten graphs then, each with its guards, which takes longer than plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.frontend.torch.dynamo_settings import set_while_captured


def capture_masked_sizes(backend: Callable[..., Any]) -> None:
    """Capture them whenever Dynamo works for this backend, from now on."""
    set_while_captured(backend, "capture_dynamic_output_shape_ops", lambda _: True)
