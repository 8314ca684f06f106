"""What runs a captured graph inside PyTorch: a compiled module, else the reference."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from glasshouse.errors import GlasshouseError, OnReference, TypeMismatch
from glasshouse.frontend.dynamo.held import HeldModules
from glasshouse.frontend.torch.devices import GpuOf, asked_precision
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS, WITHOUT_NUMPY, torch_dtype
from glasshouse.frontend.torch.program import Captured
from glasshouse.ir.graph import Graph
from glasshouse.ops.random import RUN_SEED
from glasshouse.runtime.tensor_memory import tensor_array

_LONG = torch.tensor(False)
"""Expanded, a size on its own: a tensor of that length without memory."""

EXECUTORS = ("auto", "compiled", "reference")


class Runner:
    """Runs a graph on tensors. `module` is what it was compiled to, or None on the reference."""

    def __init__(
        self,
        captured: Captured,
        executor: str = "auto",
        held: HeldModules | None = None,
        device: GpuOf | None = None,
    ) -> None:
        """`held` has modules by the weights that they hold, for a graph that is called with them:
        `module` is then the one for those that the graph was captured with. `device` is where its
        tensors are, unless that is the host."""
        if executor not in EXECUTORS:
            raise TypeMismatch(f"an executor is one of {', '.join(EXECUTORS)}, not {executor!r}")
        self.captured = captured
        self.graph: Graph = captured.graph
        self.module: Any = None
        self.why = "the reference executor was asked for"  # where there is no module
        self._held = held
        self._device = device
        order = list(range(len(captured.graph.outputs)))
        # Results are tensors as they come.
        self._plain = not (captured.numbers or captured.complex or captured.apart)
        self._in_order = captured.outputs == order
        self._state: dict[str, Any] = {}
        if executor != "reference":
            try:
                target = None if device is None else device.target
                self.module = compiled(self.graph, target) if held is None else held.first
            except Exception as error:
                if executor == "compiled":
                    raise
                self.why = error.message if isinstance(error, GlasshouseError) else repr(error)
                warnings.warn(
                    f"{self.graph.name or 'a graph'} runs on the reference executor, which is "
                    f"slow: {self.why}",
                    OnReference,
                    stacklevel=3,
                )

    @property
    def recording(self) -> Any:
        """What the compiler wrote down; without a module, the captured graph and the reason."""
        from glasshouse.runtime.uncompiled import uncompiled

        if self.module is None:
            return uncompiled(self.graph, self.why)
        return self.module.base_recording

    def quick(self) -> Callable[..., Any] | None:
        """What runs the graph's inputs, plain tensors, and gives its output or outputs;
        it gives None where this runner must be asked. None: there is no such way. Complex results
        are pairs of reals."""
        if self.module is None or self._held or self.captured.numbers:
            return None
        if not self.graph.inputs or not self.graph.outputs:
            return None
        if self._device is not None:
            return self._quick_on_device() if self.module.is_one_launch() else None
        if self.captured.written:
            return None
        found: Callable[..., Any] | None = self.module.quick_call(torch.Tensor)
        return found

    def _quick_on_device(self) -> Callable[..., Any]:
        module, inputs = self.module, self.captured.inputs
        written = [(inputs.index(number), place) for number, place in self.captured.written]
        is_one = len(self.graph.outputs) == 1

        def call(given: Sequence[Any]) -> Any:
            fixed = module.fixed_call
            made = None if fixed is None else fixed(given, None, bool(written))
            if written and made is not None:
                _write(written, given, (made,) if is_one else made)
            return made

        return call

    def direct(self) -> Callable[..., list[Any]]:
        """The same as a function of the flat arguments, which takes the shortest way it can."""
        held, inputs = self._held, self.captured.inputs
        if held is None or not (self._plain and self._in_order) or self.captured.written:
            return lambda *flat: self(flat)
        quick, is_one = held.quick, len(self.graph.outputs) == 1

        def call(*flat: Any) -> list[Any]:
            made = quick(flat, inputs)
            if made is None:
                return self(flat)
            return [made] if is_one else list(made)

        return call

    def __call__(self, flat: Sequence[Any]) -> list[Any]:
        """The model's results, flat, for its flat arguments; written arguments are written to."""
        module = self.module if self._held is None else self._held.module(flat)
        given = self.captured.given(flat)
        if self._device is not None:
            given = [self._device.operand(x) for x in given]
        else:
            given = [_LONG.expand(x) if type(x) is int else x for x in given]
        tensors = bool(given) and all(type(x) is torch.Tensor for x in given)
        if module is not None and self._plain and tensors:  # results are what arguments are
            made = module.run_over(given) if self.captured.written else module.run_flat(given)
            _write(self.captured.written, flat, made)
            return list(made) if self._in_order else self.captured.flat_results(made)
        there = module is not None and self._device is not None
        outputs = self._run(module, given if there else [_operand(x) for x in given])
        if self._device is not None:
            outputs = [o.to(self._device.name) for o in outputs]
        _write(self.captured.written, flat, outputs)
        return self.captured.flat_results(outputs)

    def _run(self, module: Any, given: Sequence[Any]) -> list[torch.Tensor]:
        if module is not None:
            many: Sequence[Any] = module.run_flat(given)
        else:
            from glasshouse.numpy_ref import run
            from glasshouse.runtime.seeds import drawn_seed

            if any(n.attrs["name"] == RUN_SEED for n in self.graph.updates):
                self._state[RUN_SEED] = np.array(drawn_seed(), np.int64)
            made = run(self.graph, [_carried(g) for g in given], variables=self._state)
            # Some are arguments or weights, or views of them, which a caller may write into.
            many = [np.array(a) for a in made]
        return [_tensor(o, v.type.dtype) for o, v in zip(many, self.graph.outputs, strict=True)]


def get_ready(target: str | None) -> None:
    """Begin what will be needed to build for a target; where it is not there, building says so."""
    from glasshouse.runtime import compiler

    with suppress(GlasshouseError):
        compiler.get_ready(target)


def compiled(
    graph: Graph, target: str | None = None, shares: bool = False, prefaulted: Any = None
) -> Any:
    """The module of a graph; with `shares`, packed weights are held once for all graphs of them."""
    from glasshouse.runtime.compiler import compile_optimized

    precision = asked_precision(target)
    return compile_optimized(
        graph, target, shares=shares, precision=precision, prefaulted=prefaulted
    )


def _write(
    written: Sequence[tuple[int, int]], given: Sequence[Any], outputs: Sequence[Any]
) -> None:
    """Arguments that the model writes to, by number and that of an output, hold their new values,
    and PyTorch knows it."""
    over: list[torch.Tensor] = []
    old: list[torch.Tensor] = []
    new: list[torch.Tensor] = []
    for number, place in written:
        if outputs[place] is given[number]:
            over.append(given[number])
        else:
            old.append(given[number])
            new.append(_like(outputs[place], given[number]))
    if over:
        torch.autograd.graph.increment_version(over)
    if not old:
        return
    with torch.no_grad():  # Dynamo calls a graph of `no_grad` before it turns gradients off
        if len(old) > 1:
            torch._foreach_copy_(old, new)  # at once: each by itself takes 16 us beside a GPU
        else:
            old[0].copy_(new[0])


def _like(made: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """A result as what it is written to: pairs of parts are complex numbers there."""
    if given.is_complex() and not made.is_complex():
        return torch.view_as_complex(made)
    return made


def _operand(given: Any) -> Any:
    found = given.detach().resolve_conj().resolve_neg()
    if found.dtype in COMPLEX_PARTS:
        found = torch.view_as_real(found)
    return found.cpu().contiguous()


def _carried(given: Any) -> Any:
    if not isinstance(given, torch.Tensor):
        return given
    return tensor_array(given.float() if given.dtype in WITHOUT_NUMPY else given)


def _tensor(given: Any, dtype: Any) -> torch.Tensor:
    if not isinstance(given, torch.Tensor):
        array = np.ascontiguousarray(given).reshape(
            np.shape(given)
        )  # flipped: no strides for torch
        if dtype.is_carried and array.dtype == dtype.storage:
            return torch.from_numpy(array.view(f"i{dtype.itemsize}")).view(torch_dtype(dtype))
        given = torch.from_numpy(array if array.flags.writeable else array.copy())
    return given if given.is_complex() else given.to(torch_dtype(dtype))
