"""What a model is tried on: the inputs given, random ones, other sizes where a graph leaves them
open, and edges (large, zero, halves, masked)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.ir.dim import Symbol, SymDim, symbols_of
from glasshouse.ir.dtype import finish
from glasshouse.ir.graph import Graph
from glasshouse.numerics.inputs import random_inputs
from glasshouse.numpy_ref.executor import bind_sizes

Array = np.ndarray[Any, Any]
LARGE, TINY = 300.0, 1e-6


@dataclass(frozen=True)
class Case:
    """Inputs of a graph, and what they are called in findings."""

    name: str
    inputs: tuple[Array, ...]

    @property
    def usual(self) -> bool:
        """Whether inputs are like a user's, not chosen to be hard to compute with."""
        return self.name in ("given", "other sizes", "halves") or self.name.startswith("random")


def cases(graph: Graph, given: Sequence[Array] | None, seeds: int = 2) -> Iterator[Case]:
    """All of them; integers are those given, or small enough for almost any index.

    Sizes that the graph leaves open are those of the inputs given.
    """
    if given is not None:
        yield Case("given", tuple(given))
    sizes = bind_sizes([v.type for v in graph.inputs], given) if given is not None else None
    drawn = [tuple(random_inputs(graph, seed, sizes)) for seed in range(seeds)]
    base = [_with_integers(graph, d, given) for d in drawn]
    for seed, inputs in enumerate(base):
        yield Case(f"random {seed}", inputs)
    other = _other_sizes(graph, sizes or bind_sizes([v.type for v in graph.inputs], base[0]))
    if other is not None:
        yield Case("other sizes", tuple(random_inputs(graph, 0, other)))
    if not base or not any(v.type.dtype.is_float for v in graph.inputs):
        return
    first = base[0]
    for name, scale in (("large", LARGE), ("tiny", TINY), ("zeros", 0.0)):
        yield Case(name, tuple(_scaled(graph, first, scale)))
    yield Case("halves", tuple(_halves(graph, first)))
    yield Case("equal rows", tuple(_equal_rows(graph, first)))
    masked = list(_masked(graph, first))
    if masked:
        yield Case("masked rows", tuple(masked))


def _other_sizes(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int] | None:
    """Each symbol one larger, or one smaller at the end of its range; None where all are fixed."""
    found: dict[str, Symbol] = {}
    for value in graph.inputs:
        for dim in value.type.shape:
            found |= symbols_of(dim) if isinstance(dim, SymDim) else {}
    out = {}
    for name, symbol in found.items():
        now = sizes[name]
        out[name] = (
            now + 1 if symbol.high is None or now < symbol.high else max(now - 1, symbol.low)
        )
    return out if out and out != {name: sizes[name] for name in out} else None


def _with_integers(
    graph: Graph, drawn: Sequence[Array], given: Sequence[Array] | None
) -> tuple[Array, ...]:
    """Random floats beside the integers that were given: an index means something to a model."""
    if given is None:
        return tuple(drawn)
    pairs = zip(graph.inputs, drawn, given, strict=True)
    return tuple(d if v.type.dtype.is_float else g for v, d, g in pairs)


def _scaled(graph: Graph, inputs: Sequence[Array], scale: float) -> Iterator[Array]:
    for value, array in zip(graph.inputs, inputs, strict=True):
        dtype = value.type.dtype
        if not dtype.is_float:
            yield array
            continue
        with np.errstate(over="ignore"):
            made = (array * scale).astype(array.dtype)
        yield finish(made, dtype)


def _halves(graph: Graph, inputs: Sequence[Array]) -> Iterator[Array]:
    """Multiples of 0.5: what rounds lies halfway, what compares or ranks meets its equal."""
    for value, array in zip(graph.inputs, inputs, strict=True):
        is_float = value.type.dtype.is_float
        yield (np.round(array * 2) / 2).astype(array.dtype) if is_float else array


def _equal_rows(graph: Graph, inputs: Sequence[Array]) -> Iterator[Array]:
    """Every row constant: what a norm divides by is 0 but for its epsilon."""
    for value, array in zip(graph.inputs, inputs, strict=True):
        if value.type.dtype.is_float and array.ndim:
            yield np.broadcast_to(array[..., :1], array.shape).copy()
        else:
            yield array


def _masked(graph: Graph, inputs: Sequence[Array]) -> Iterator[Array]:
    """Masks (bools) with whole rows off; nothing where there is no mask."""
    masks = [v.type.dtype.storage.kind == "b" for v in graph.inputs]
    if not any(masks):
        return
    for is_mask, array in zip(masks, inputs, strict=True):
        if is_mask and array.ndim:
            off = np.ones_like(array)
            off[..., array.shape[-1] // 2 :] = False
            off.reshape(-1, array.shape[-1])[0] = False
            yield off
        else:
            yield array
