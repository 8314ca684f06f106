"""Memory of a device that is kept by key and freed with its owner."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from glasshouse.backend.base import DeviceMemory


class Blocks:
    """Memory of a device by a key; what was allocated is freed with it."""

    def __init__(self, device: DeviceMemory) -> None:
        self.device = device
        self._held: dict[Any, tuple[int, int]] = {}  # address and bytes
        weakref.finalize(self, _freed, device, self._held).atexit = False

    def of(self, key: Any, count: int) -> int:
        """At least so many bytes; kept for later runs."""
        address, have = self._held.get(key, (0, 0))
        if address and have >= count:
            return address
        if address:  # no longer held, should there be no room for the new one
            del self._held[key]
            self.device.synchronize()
            self.device.free(address)
        address = self.device.allocate(count)
        self._held[key] = (address, count)
        return address

    def drop(self, key: Any) -> None:
        address, _ = self._held.pop(key, (0, 0))
        if address:
            self.device.synchronize()
            self.device.free(address)

    @property
    def bytes(self) -> int:
        return sum(count for _, count in self._held.values())


def _freed(device: DeviceMemory, held: Mapping[Any, tuple[int, int]]) -> None:
    device.enter()
    for address, _ in held.values():
        device.free(address)
