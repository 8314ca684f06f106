"""What models ask of their data in Python, left out while they are captured.

`torch.distributions` looks whether parameters and values are in their ranges, and raises otherwise.
A graph has no such branch: a compiled model computes what the formulas give.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.distributions import Distribution


@contextmanager
def unchecked() -> Iterator[None]:
    """While it lasts, distributions that are made do not check their arguments."""
    before = Distribution._validate_args
    Distribution._validate_args = False
    try:
        yield
    finally:
        Distribution._validate_args = before
