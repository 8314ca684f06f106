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

A set whose tensors are no longer where they were (a buffer that is assigned anew in every call, an
average of weights) is taken for those that came in their place: nothing is compiled or held twice.
Where they were folded into others, call after call, they are arguments from then on (`unheld`).
"""

from __future__ import annotations

import ctypes
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from glasshouse.errors import ExecutionError
from glasshouse.forking import ForkLock
from glasshouse.frontend.dynamo.unheld import PATIENCE

FEW = 64
"""Calls between two changes of weights below which these are not worth folding: compiling anew
takes as long as a hundred calls of a small model or more."""

MOST_SETS = 64
"""Sets of weights that one graph keeps prepared: layers of one class share a graph of Dynamo's."""


class _Observed:
    """What weights are at a moment: where they lie, their versions, on the host samples of them."""

    def __init__(self, module: Any, weights: Sequence[torch.Tensor], on_host: bool) -> None:
        stamps = [0] * len(weights)
        self.read: Callable[[], int] = int  # the stamp of all as it is now
        if on_host:
            self._addresses, self._sizes = _places(weights)  # read for as long as this is there
            at, sizes = ctypes.addressof(self._addresses), ctypes.addressof(self._sizes)
            self.read = partial(module.stamp, at, sizes, len(weights))
            stamps = [int(module.stamp(at + 8 * i, sizes + 8 * i, 1)) for i in range(len(weights))]
        self.stamp = self.read()
        self.each = [(w.data_ptr(), w._version, s) for w, s in zip(weights, stamps, strict=True)]

    def differing(self, other: _Observed) -> list[int]:
        """The numbers of weights that are not what they were then."""
        return [i for i, (a, b) in enumerate(zip(self.each, other.each, strict=True)) if a != b]


@dataclass
class _Set:
    module: Any
    seen: _Observed
    owners: Sequence[weakref.ref[torch.Tensor]]  # the weights
    copied: Sequence[int]  # the numbers of those that the module has copies of
    versions: Sequence[int]  # of these
    checks: Sequence[tuple[int, int, int]]  # of these: argument, address, version
    read: Callable[[], int]  # the stamp as it is now
    stamp: int
    call: Any  # what runs the module on tensors; None where there is no quick way
    is_open: bool = False  # whether no weight is folded
    was_made_anew: bool = False
    calls: int = 0  # since the weights changed

    def has_lost_one(self) -> bool:
        """Whether a weight that the module has a copy of is gone: another one may lie there now."""
        return any(self.owners[i]() is None for i in self.copied)

    def is_left(self, key: Sequence[int]) -> bool:
        """Whether a weight is gone, or elsewhere: nobody can call with this set again."""
        owners = (owner() for owner in self.owners)
        return any(o is None or o.data_ptr() != at for o, at in zip(owners, key, strict=True))


class HeldModules:
    """A module for each set of weights that a graph was called with.

    `names` are the names of the weights by number of the flat argument; `make` compiles the graph
    for weights, as it does at once for those among `examples`; asked to, such that all can be set,
    or that those with some names are arguments.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        examples: Sequence[Any],
        make: Callable[[Mapping[int, torch.Tensor], bool, Collection[str]], Any],
        lends: bool = False,
    ) -> None:
        """`lends`: weights are tensors of the device that modules run on."""
        self._lends = lends
        self.names = dict(names)
        self._numbers = tuple(names)
        self._make = make
        self._restless = 0  # calls in a row that brought other tensors and a module made anew
        self._free: set[str] = set()  # weights that are no constants
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
        if held is None or held.has_lost_one():
            return self._added(key, weights)
        self._restless = 0
        if held.versions != [weights[i]._version for i in held.copied] or held.read() != held.stamp:
            with self._preparing.lock:
                # A first change may be that of a checkpoint which is loaded.
                is_restless = held.was_made_anew and held.calls < FEW and not self._lends
                seen = self._seen(held.module, weights)
                held = self._prepared(held, weights, seen, held.copied, is_restless)
                self._sets[key] = held
        elif held.is_open and held.calls > FEW:  # they stay as they are now
            with self._preparing.lock:
                held = self._sets[key] = self._made(weights)
        held.calls += 1
        self._last = held if held.call is not None else None
        return held.module

    def _added(self, key: tuple[int, ...], weights: list[torch.Tensor]) -> Any:
        with self._preparing.lock:
            held = self._sets.get(key)
            if held is not None and not held.has_lost_one():
                return held.module
            left = (
                key
                if held is not None
                else next((k for k, s in self._sets.items() if s.is_left(k)), None)
            )
            held = self._made(weights) if left is None else self._taken_over(left, weights)
            self._sets[key] = held
            while len(self._sets) > MOST_SETS:
                self._sets.popitem(last=False)
            return held.module

    def _taken_over(self, left: tuple[int, ...], weights: list[torch.Tensor]) -> _Set:
        """A set that nobody can call with any more, with these weights."""
        was = self._sets.pop(left)
        seen = self._seen(was.module, weights)
        gone = {i for i, owner in enumerate(was.owners) if owner() is None}
        others = sorted(gone.union(seen.differing(was.seen)))
        held = self._prepared(was, weights, seen, others)
        self._restless += held.module is not was.module
        if self._restless > PATIENCE:
            self._restless = 0
            names = list(self.names.values())
            self._free.update(names[i] for i in others)
            held = self._made(weights)
        return held

    def _made(self, weights: list[torch.Tensor], is_open: bool = False) -> _Set:
        """A module of its own for these weights; open: of which nothing is folded."""
        tensors = dict(zip(self._numbers, weights, strict=True))
        module = self._make(tensors, is_open, self._free)
        held = self._set(module, weights, self._lent(module, weights), self._seen(module, weights))
        held.is_open = is_open
        return held

    def _prepared(
        self,
        was: _Set,
        weights: list[torch.Tensor],
        seen: _Observed,
        numbers: Sequence[int],
        is_open: bool = False,
    ) -> _Set:
        """The module of a set, with these weights in the place of those that have some numbers, or
        one made anew; what is written to them from `seen` on will be noticed."""
        names = list(self.names.values())
        lent = self._lent(was.module, weights)
        try:
            was.module.set_many_constants({names[i]: weights[i] for i in numbers if i not in lent})
        except ExecutionError:  # folded into others, or built into the code
            held = self._made(weights, is_open)
            held.was_made_anew = True
        else:
            held = self._set(was.module, weights, lent, seen)
            held.is_open, held.was_made_anew = was.is_open, was.was_made_anew
        return held

    def _seen(self, module: Any, weights: list[torch.Tensor]) -> _Observed:
        return _Observed(module, weights, not self._lends)

    def _lent(self, module: Any, weights: list[torch.Tensor]) -> set[int]:
        """The numbers of weights that the module reads where they are."""
        if not self._lends:
            return set()
        named = dict(zip(self.names.values(), weights, strict=True))
        lent = module.lend_weights(named)
        return {i for i, name in enumerate(named) if name in lent}

    def _set(
        self, module: Any, weights: list[torch.Tensor], lent: set[int], seen: _Observed
    ) -> _Set:
        copied = [i for i in range(len(weights)) if i not in lent]
        checks = [(self._numbers[i], *seen.each[i][:2]) for i in copied]
        versions = [version for _, _, version in checks]
        call = None if self._lends else module.quick_call(torch.Tensor)
        owners = [weakref.ref(w) for w in weights]
        return _Set(module, seen, owners, copied, versions, checks, seen.read, seen.stamp, call)


def _places(weights: Sequence[torch.Tensor]) -> tuple[Any, Any]:
    """Addresses and sizes of weights, as the stamp wants them."""
    count = max(len(weights), 1)
    sizes = [w.untyped_storage().nbytes() - w.storage_offset() * w.element_size() for w in weights]
    addresses = (ctypes.c_void_p * count)(*[w.data_ptr() for w in weights])
    return addresses, (ctypes.c_int64 * count)(*sizes)
