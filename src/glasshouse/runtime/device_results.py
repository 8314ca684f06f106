"""Memory for the results of a run on a device: some have tensors of their own, small ones that live
as long as each other are parts of one block.

A tensor costs PyTorch 3 to 10 us beside a GPU, and a part of one that is there 1. A training step
of a small ResNet has 140 of them; fewer pieces also come back to the same place more often, and a
launch is repeated only for the same memory.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from glasshouse.backend.base import TensorDevice

LARGE = 4 << 20
"""Bytes from which a result has memory of its own, which can be freed by itself."""
_ALIGNED = 128
"""Bytes to which parts are aligned: those that memory hands over together."""

Described = tuple[Any, Any]
"""Shape and type of a result, in PyTorch's words."""


class DeviceResults:
    """Makes tensors for the results of a run, all of whose sizes are known."""

    def __init__(
        self, described: Sequence[Described], together: Sequence[int], over: Mapping[int, int],
        beside: TensorDevice,
    ) -> None:  # fmt: skip
        """`together`: numbers of those that may be parts of one block; `over`: of those that may be
        written over an input, by number."""
        torch: Any = sys.modules["torch"]
        self._torch, self._over = torch, over
        self._device = torch.device(beside.name)
        self._count = len(described)
        self._views = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
        by_type: dict[Any, list[int]] = {}
        for number in together:
            shape, kind = described[number]
            if number not in over and 0 < shape.numel() * kind.itemsize < LARGE:
                by_type.setdefault(kind, []).append(number)
        self._blocks = [
            self._block(kind, [(n, described[n][0]) for n in numbers])
            for kind, numbers in by_type.items()
            if len(numbers) > 1
        ]
        shared = {part[0] for _, _, parts in self._blocks for part in parts}
        alone = [(n, *told) for n, told in enumerate(described) if n not in shared]
        self._alone = [x for x in alone if x[0] not in over]
        self._old = [x for x in alone if x[0] in over]

    def _block(self, kind: Any, members: Sequence[tuple[int, Any]]) -> tuple[Any, int, list[Any]]:
        """Elements of a block, and its parts: number, shape, strides, offset."""
        parts, at, aligned = [], 0, _ALIGNED // kind.itemsize
        for number, shape in members:
            strides = [1] * len(shape)
            for axis in range(len(shape) - 2, -1, -1):
                strides[axis] = strides[axis + 1] * shape[axis + 1]
            parts.append((number, shape, tuple(strides), at))
            at += -(-shape.numel() // aligned) * aligned
        return kind, at, parts

    def make(self, inputs: Sequence[Any], over: bool) -> list[Any]:
        """`over`: results that may be are the inputs that they are written over."""
        torch, device, made = self._torch, self._device, [None] * self._count
        empty = torch.empty
        for kind, count, parts in self._blocks:
            whole = empty(count, dtype=kind, device=device)
            # Parts are no views: what is written to one of them does not count for the others.
            with torch._C._ExcludeDispatchKeyGuard(self._views):
                for number, shape, strides, at in parts:
                    made[number] = whole.as_strided(shape, strides, at)
        for number, shape, kind in self._alone:
            made[number] = empty(shape, dtype=kind, device=device)
        for number, shape, kind in self._old:
            old = inputs[self._over[number]] if over else None
            made[number] = empty(shape, dtype=kind, device=device) if old is None else old
        return made
