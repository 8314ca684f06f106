"""What models ask of their data in Python, left out while they are captured.

`torch.distributions` looks whether parameters and values are in their ranges, and raises otherwise.
A graph has no such branch: a compiled model computes what the formulas give.

`nn.TransformerEncoder`, its decoder and `nn.Transformer` look whether a mask that they are given is
the causal one, for kernels that need no mask then. Nothing else depends on the answer: the mask is
applied as it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._dynamo.decorators import substitute_in_graph
from torch.distributions import Distribution
from torch.nn.modules import transformer


@contextmanager
def unchecked() -> Iterator[None]:
    """While it lasts, distributions that are made do not check their arguments, and masks are not
    looked at."""
    before, looks = Distribution._validate_args, transformer._detect_is_causal_mask
    Distribution._validate_args = False
    transformer._detect_is_causal_mask = _is_said_to_be_causal
    try:
        yield
    finally:
        Distribution._validate_args = before
        transformer._detect_is_causal_mask = looks


def _is_said_to_be_causal(
    mask: torch.Tensor | None, is_causal: bool | None = None, size: int | None = None
) -> bool:
    return is_causal is True


def masks_as_given() -> None:
    """Let Dynamo capture those layers without the question, from now on: it broke the graph, and
    all of them ran in plain PyTorch."""
    substitute_in_graph(transformer._detect_is_causal_mask)(_is_said_to_be_causal)
