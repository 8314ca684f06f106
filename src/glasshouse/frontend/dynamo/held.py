"""Parameters and buffers that compiled graphs hold prepared, and how their changes are noticed.

`torch.compile` hands them to its backend as arguments of every call. Packing them each time costs
more than small models do, so they are constants of the module, as long as they are what they were:
the same memory (`data_ptr`), the same version (counted by PyTorch for every write that it sees),
and the same samples (a few words of each: writes through `.data` are not counted).

What passes folded into others (a norm's factors into a convolution) cannot be set, so the module is
compiled anew for new weights. Where they change every few calls (an agent that acts between its
steps, an average of weights that is looked at after each), it is compiled once more with weights
that nothing is folded of, and those are set.

On a GPU, weights that kernels read as they are stay where they are: whatever is written to them
holds from the next call on. Of the others the version is looked at, and nothing of their memory.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from glasshouse.errors import ExecutionError
from glasshouse.forking import ForkLock

FEW = 64
"""Calls between two changes of weights below which these are not worth folding: compiling anew
takes as long as a hundred calls of a small model or more."""

MOST_SETS = 64
"""Sets of weights that one graph keeps prepared: layers of one class share a graph of Dynamo's."""


@dataclass
class _Set:
    module: Any
    numbers: list[int]  # of the weights that the module has copies of
    versions: list[int]
    stamp: int
    places: Any  # addresses and sizes of the weights, as the stamp wants them; None on a GPU
    checks: Sequence[tuple[int, int, int]] = ()  # of each weight: argument, address, version
    read: Callable[[], int] = int  # the stamp as it is now
    call: Any = None  # what runs the module on tensors; None where there is no quick way
    is_open: bool = False  # whether no weight is folded
    was_made_anew: bool = False
    calls: int = 0  # since the weights changed


class HeldModules:
    """A module for each set of weights that a graph was called with.

    `names` are the names of the weights by number of the flat argument; `make` compiles the graph
    for weights, as it does at once for those among `examples`; asked to, such that all can be set.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        examples: Sequence[Any],
        make: Callable[[Mapping[int, torch.Tensor], bool], Any],
        lends: bool = False,
    ) -> None:
        """`lends`: weights are tensors of the device that modules run on."""
        self._lends = lends
        self.names = dict(names)
        self._numbers = tuple(names)
        self._make = make
        self._sets: OrderedDict[tuple[int, ...], _Set] = OrderedDict()
        self._preparing = ForkLock()
        self._last: _Set | None = None  # of the last call that `module` was asked for
        self.first = self.module(examples)

    def quick(self, flat: Sequence[Any], inputs: Sequence[int]) -> Any:
        """What `quick_call` gives for these inputs, if the weights are those of the last call and
        nobody wrote to them; None where `module` must be asked.

        All of it stands here: behind a kernel that filled the caches, each function and each list
        more takes microseconds (self-attention of 128 tokens had 75 us of it
        around its kernels).
        """
        last = self._last
        if last is None:
            return None
        for number, address, version in last.checks:
            weight = flat[number]
            if weight.data_ptr() != address or weight._version != version:
                return None
        if last.read() != last.stamp:
            return None
        last.calls += 1
        if last.is_open and last.calls > FEW:
            return None
        return last.call([flat[i] for i in inputs])

    def module(self, flat: Sequence[Any]) -> Any:
        """The module for the weights among the arguments of a call, as they are now."""
        weights = [flat[i] for i in self._numbers]
        key = tuple([w.data_ptr() for w in weights])
        held = self._sets.get(key)
        if held is None:
            return self._added(key, weights)
        changed = held.versions != [weights[i]._version for i in held.numbers]
        if changed or held.stamp != _stamp(held):
            self._refresh(held, weights)
            held.calls = 0
        elif held.is_open and held.calls > FEW:  # they stay as they are now
            with self._preparing.lock:
                self._fill(held, weights)
        held.calls += 1
        self._last = held if held.call is not None else None
        return held.module

    def _added(self, key: tuple[int, ...], weights: list[torch.Tensor]) -> Any:
        with self._preparing.lock:
            held = self._sets.get(key)
            if held is None:
                held = _Set(None, [], [], 0, None if self._lends else _places(weights))
                self._fill(held, weights)
                self._sets[key] = held
                while len(self._sets) > MOST_SETS:
                    self._sets.popitem(last=False)
            return held.module

    def _fill(self, held: _Set, weights: list[torch.Tensor], is_open: bool = False) -> None:
        """Make the module of a set anew."""
        held.module = self._make(dict(zip(self._numbers, weights, strict=True)), is_open)
        held.is_open = is_open
        named = dict(zip(self.names.values(), weights, strict=True))
        lent = set(held.module.lend_weights(named)) if self._lends else set()
        held.numbers = [i for i, name in enumerate(self.names.values()) if name not in lent]
        if held.places is not None:
            addresses, sizes, count = held.places
            where = ctypes.addressof(addresses), ctypes.addressof(sizes)
            held.read = partial(held.module.stamp, *where, count)
            held.call = held.module.quick_call(torch.Tensor)
        # Behind the call: a thread that finds the new stamp must not find the old module.
        held.versions = [weights[i]._version for i in held.numbers]
        held.stamp = _stamp(held)
        self._note(held, weights)

    def _note(self, held: _Set, weights: list[torch.Tensor]) -> None:
        places = [w.data_ptr() for w in weights]
        versions = dict(zip(held.numbers, held.versions, strict=True))
        held.checks = [(self._numbers[i], places[i], version) for i, version in versions.items()]

    def _refresh(self, held: _Set, weights: list[torch.Tensor]) -> None:
        """Weights were written to: prepare them again."""
        with self._preparing.lock:
            versions, stamp = [weights[i]._version for i in held.numbers], _stamp(held)
            names = list(self.names.values())
            try:
                held.module.set_many_constants({names[i]: weights[i] for i in held.numbers})
            except ExecutionError:  # folded into others, or built into the code
                # A first change may be that of a checkpoint which is loaded.
                is_restless = held.was_made_anew and held.calls < FEW and not self._lends
                self._fill(held, weights, is_open=is_restless)
                held.was_made_anew = True
            held.versions, held.stamp = versions, stamp
            self._note(held, weights)


def _places(weights: Sequence[torch.Tensor]) -> tuple[Any, Any, int]:
    count = len(weights)
    sizes = [w.untyped_storage().nbytes() - w.storage_offset() * w.element_size() for w in weights]
    addresses = (ctypes.c_void_p * max(count, 1))(*[w.data_ptr() for w in weights])
    return addresses, (ctypes.c_int64 * max(count, 1))(*sizes), count


def _stamp(held: _Set) -> int:
    if held.places is None:
        return 0
    addresses, sizes, count = held.places
    return int(held.module.stamp(ctypes.addressof(addresses), ctypes.addressof(sizes), count))
