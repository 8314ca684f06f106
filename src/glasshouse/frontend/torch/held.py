"""Parameters and buffers that compiled graphs hold prepared, and how their changes are noticed.

`torch.compile` hands them to its backend as arguments of every call. Packing them each time costs
more than small models do, so they are constants of the module, as long as they are what they were:
the same memory (`data_ptr`), the same version (counted by PyTorch for every write that it sees),
and the same samples (a few words of each: writes through `.data` are not counted).
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from glasshouse.errors import ExecutionError

MOST_SETS = 64
"""Sets of weights that one graph keeps prepared: layers of one class share a graph of Dynamo's."""


@dataclass
class _Set:
    module: Any
    versions: list[int]
    stamp: int
    places: Any  # addresses and sizes of the weights, as the stamp wants them


class HeldModules:
    """A module for each set of weights that a graph was called with.

    `names` are the names of the weights by number of the flat argument; `make` compiles the graph
    for weights, as it does at once for those among `examples`.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        examples: Sequence[Any],
        make: Callable[[Mapping[int, torch.Tensor]], Any],
    ) -> None:
        self.names = dict(names)
        self._numbers = tuple(names)
        self._make = make
        self._sets: OrderedDict[tuple[int, ...], _Set] = OrderedDict()
        self._lock = threading.Lock()
        self.first = self.module(examples)

    def module(self, flat: Sequence[Any]) -> Any:
        """The module for the weights among the arguments of a call, as they are now."""
        weights = [flat[i] for i in self._numbers]
        key = tuple([w.data_ptr() for w in weights])
        held = self._sets.get(key)
        if held is None:
            return self._added(key, weights)
        if held.versions != [w._version for w in weights] or held.stamp != _stamp(held):
            self._refresh(key, held, weights)
        return held.module

    def _added(self, key: tuple[int, ...], weights: list[torch.Tensor]) -> Any:
        with self._lock:
            held = self._sets.get(key)
            if held is None:
                module = self._make(dict(zip(self._numbers, weights, strict=True)))
                held = _Set(module, [w._version for w in weights], 0, _places(weights))
                held.stamp = _stamp(held)
                self._sets[key] = held
                while len(self._sets) > MOST_SETS:
                    self._sets.popitem(last=False)
            return held.module

    def _refresh(self, key: tuple[int, ...], held: _Set, weights: list[torch.Tensor]) -> None:
        """Weights were written to: prepare them again."""
        with self._lock:
            versions, stamp = [w._version for w in weights], _stamp(held)
            named = dict(zip(self.names.values(), weights, strict=True))
            try:
                held.module.set_many_constants(named)
            except ExecutionError:  # folded into others, or built into the code
                held.module = self._make(dict(zip(self._numbers, weights, strict=True)))
            held.versions, held.stamp = versions, stamp


def _places(weights: Sequence[torch.Tensor]) -> tuple[Any, Any, int]:
    count = len(weights)
    sizes = [w.untyped_storage().nbytes() - w.storage_offset() * w.element_size() for w in weights]
    addresses = (ctypes.c_void_p * max(count, 1))(*[w.data_ptr() for w in weights])
    return addresses, (ctypes.c_int64 * max(count, 1))(*sizes), count


def _stamp(held: _Set) -> int:
    addresses, sizes, count = held.places
    return int(held.module.stamp(ctypes.addressof(addresses), ctypes.addressof(sizes), count))
