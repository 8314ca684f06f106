"""Steps without a kernel on a device: through PyTorch on the device's own memory where the process
uses it and PyTorch has the op, otherwise through Python on the host, between copies.

A copy is part of what runs: its bytes and seconds are kept by step, and reported by profiles.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasshouse.backend.base import TensorDevice
from glasshouse.ir.dtype import from_storage, to_storage
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref.executor import run_node
from glasshouse.runtime.checks import check_given_sizes

if TYPE_CHECKING:
    from glasshouse.runtime.device_run import DeviceRun


@dataclass(frozen=True)
class Copy:
    """One step's copies in one direction, in its last run."""

    to_host: bool
    bytes: int
    seconds: float


class DeviceFallback:
    """What runs those steps of one program."""

    def __init__(self, of: DeviceRun) -> None:
        self.of = of
        self.copies: dict[int, tuple[Copy, Copy]] = {}  # by step, those of its last run
        self._results: dict[Value, Any] = {}  # tensors of PyTorch's that steps to come read
        self._steps: dict[int, Any] = {}  # by step: what runs it in PyTorch, None for the host

    def beside(self, node: Node) -> TensorDevice | None:
        """PyTorch, where it runs a node on the device."""
        found = self.of.device.torch
        if found is None:
            return None
        from glasshouse.runtime.torch_ops.run import is_spelled  # PyTorch is in use

        return found if is_spelled(node) else None

    def run(
        self, number: int, step: Fallback, sizes: dict[str, int], bound: Mapping[Value, Any]
    ) -> bool:
        """Run a step; whether it gave sizes that were not known. `bound` are the caller's tensors
        for results that are outputs."""
        known = len(sizes)
        beside = self.of.device.torch
        if number not in self._steps:
            self._steps[number] = None
            if beside is not None and self.beside(step.node) is not None:
                from glasshouse.runtime.torch_ops.run import TorchStep

                self._steps[number] = TorchStep(step.node)
        call = self._steps[number]
        if beside is not None and call is not None:
            self._through_torch(beside, call, step, sizes, bound)
        else:
            self._on_host(number, step, sizes, bound)
        return len(sizes) > known

    def holds(self, value: Value) -> bool:
        """Whether a value lies in a tensor of PyTorch's now."""
        return value in self._results

    def copy_seconds(self, number: int) -> float:
        return sum(copy.seconds for copy in self.copies.get(number, ()))

    def forget(self) -> None:
        """A run has ended: nothing reads the results of its steps any more."""
        self._results.clear()

    # ------------------------------------------------------------------------------- on the device
    def _through_torch(
        self,
        beside: TensorDevice,
        call: Any,
        step: Fallback,
        sizes: dict[str, int],
        bound: Mapping[Value, Any],
    ) -> None:
        of, node = self.of, step.node
        with beside.ordered(of.device.stream):
            made = call([of.tensor(beside, v, sizes) for v in node.inputs], sizes)
            for value, found in zip(node.outputs, made, strict=True):
                there = found.get_device() == beside.index  # an op may name the host as its device
                result = found if there else found.to(beside.name)
                order = of.program.orders.get(value)
                laid_out = result if order is None else result.permute(*order).contiguous()
                if value in bound:
                    bound[value].copy_(laid_out)
                else:
                    self._results[value] = laid_out  # until the run has ended
                    of.bind(value, laid_out.data_ptr())

    # --------------------------------------------------------------------------------- on the host
    def _on_host(
        self, number: int, step: Fallback, sizes: dict[str, int], bound: Mapping[Value, Any]
    ) -> None:
        of, node = self.of, step.node
        of.device.synchronize()  # what runs before it is not the copies' time
        begin = time.perf_counter()
        stored = [of.read(v, sizes) for v in node.inputs]
        fetched = Copy(True, sum(a.nbytes for a in stored), time.perf_counter() - begin)
        known = len(sizes)
        arrays = [from_storage(a, v.type.dtype) for a, v in zip(stored, node.inputs, strict=True)]
        made = run_node(node, arrays, sizes, of.of.bodies)
        if len(sizes) > known:
            check_given_sizes(node, sizes)
        lying = []
        for value, result in zip(node.outputs, made, strict=True):
            order = of.program.orders.get(value)
            laid_out = result if order is None else result.transpose(order)
            lying.append(np.ascontiguousarray(to_storage(laid_out, value.type.dtype)))
        begin = time.perf_counter()
        for value, array in zip(node.outputs, lying, strict=True):
            if value not in bound:
                of.bind(value, of.blocks.of(of.plan.table[value], array.nbytes))
            of.device.upload(of.place(value), array)
        brought = Copy(False, sum(a.nbytes for a in lying), time.perf_counter() - begin)
        self.copies[number] = fetched, brought
