"""The seed of a run: a model that came from PyTorch draws it from PyTorch's generator.

`torch.manual_seed` then fixes what dropout and random tensors give, as it does for `torch.compile`:
each call draws one number from the default generator on the CPU, and everything random in that call
follows from it. Without PyTorch in the process (a saved model, a C program) the seed counts up from
what was saved, one step for each run. Profiles and recordings leave the generator as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from glasshouse.ir.graph import Graph, Value
from glasshouse.ops.random import RUN_SEED
from glasshouse.runtime.updates import State

_RANGE = 1 << 47  # so that sums of a seed and the number of a draw stay far below the end of int64


def drawn_seed() -> int | None:
    """The next seed from PyTorch's generator; None where PyTorch is not in use."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    return int(torch.randint(_RANGE, (), generator=torch.default_generator, device="cpu"))


@contextmanager
def undisturbed() -> Iterator[None]:
    """What is run inside leaves PyTorch's generator as it was."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


_REPEATED: ContextVar[bool] = ContextVar("repeated", default=False)


@contextmanager
def repeated_draws() -> Iterator[None]:
    """Inside, an op that PyTorch itself draws for gives the same numbers in every run."""
    token = _REPEATED.set(True)
    try:
        yield
    finally:
        _REPEATED.reset(token)


@contextmanager
def drawing() -> Iterator[None]:
    """Around an op that draws from PyTorch's generator."""
    if not _REPEATED.get():
        yield
        return
    with undisturbed():
        sys.modules["torch"].manual_seed(0)
        yield


def next_seed(graph: Graph) -> dict[str, Any]:
    """The seed that the next run of a model will draw, by the name of its variable; {} for none."""
    held = next((n for n in graph.updates if n.attrs["name"] == RUN_SEED), None)
    if held is None:
        return {}
    with undisturbed():
        drawn = drawn_seed()
    return {} if drawn is None else {RUN_SEED: np.asarray(drawn, held.output.type.dtype.storage)}


def seeding(graph: Graph, table: Mapping[Value, int], state: State) -> Callable[[], None] | None:
    """What sets the seed of the next run, for a model that has one."""
    held = next((n for n in graph.updates if n.attrs["name"] == RUN_SEED), None)
    if held is None:
        return None
    place = table[held.output]

    def seed() -> None:
        drawn = drawn_seed()
        if drawn is not None:
            state.array(place)[...] = drawn

    return seed
