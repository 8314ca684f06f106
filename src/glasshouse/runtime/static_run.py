"""Decides how the common case is run with the least overhead: fixed sizes and kernels alone.

All that does not depend on the call (tables of pointers, shapes, arguments) is made once. What is
left is checking the arguments, writing their addresses into the table, and entering the library.
That is written out as straight Python for each program, as `dataclasses` does it: without loops,
look-ups and inner calls a model of two tiny kernels takes 1 us less. With PyTorch's tensors half of
the time is PyTorch making the output.
"""

from __future__ import annotations

import ctypes
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ExecutionError
from glasshouse.ir.dtype import bfloat16, from_storage
from glasshouse.ir.graph import Value
from glasshouse.ir.op import Kind
from glasshouse.lower.cxx import is_static
from glasshouse.lower.program import Call, Program
from glasshouse.runtime.arrays import address_of
from glasshouse.runtime.updates import State
from glasshouse.runtime.workspace import Runtimes

BAD_INDEX = "an index lies outside of the tensor that it points into"

QuickCall = Callable[..., Any]
"""(inputs) or (inputs, outputs) -> the output, or outputs; None: not served."""


class StaticRun:
    """A program whose calls differ in nothing but the data of inputs and outputs."""

    def __init__(
        self, program: Program, table: Mapping[Value, int], runtimes: Runtimes, run: Any
    ) -> None:
        """`run` is the library's function that takes a frame."""
        self._graph = program.graph
        self._table = table
        state = runtimes.state
        self._common = {
            "run": run, "state": state, "ndarray": np.ndarray, "address_of": address_of,
            "memmove": ctypes.memmove, "refuse": _refuse, "runtimes": runtimes,
            "take": runtimes.take, "give": runtimes.give, "from_storage": from_storage,
        }  # fmt: skip
        self._turns = len(state.turns) == 2
        self._end = _end(state)

    @staticmethod
    def serves(program: Program) -> bool:
        """Whether a program is of this kind."""
        graph = program.graph
        made = [*graph.outputs, *graph.updates.values()]
        return (
            bool(graph.inputs and graph.outputs)
            and len(set(graph.outputs)) == len(graph.outputs)
            and all(v.node.op.kind is not Kind.SOURCE for v in made)
            and all(is_static(v.type.shape) for v in (*graph.inputs, *graph.outputs))
            and not program.symbols
            and all(isinstance(s, Call) for s in program.steps)
        )

    def call_for(self, kind: type, given_outputs: bool) -> QuickCall | None:
        """The function for arguments that are all of this class; None: there is none."""
        torch: Any = sys.modules.get("torch")
        if kind is not np.ndarray and (torch is None or kind is not torch.Tensor):
            return None
        names: dict[str, Any] = dict(self._common)
        side = _Arrays(names) if kind is np.ndarray else _Tensors(names, torch)
        inputs, outputs = self._graph.inputs, self._graph.outputs
        lines = side.checks("x", "inputs", inputs)
        if given_outputs:
            lines += side.checks("y", "outputs", outputs)
        else:
            lines += [f"y{i} = {side.made(i, value)}" for i, value in enumerate(outputs)]
        lines += ["workspace = take()", "try:", *[f"    {x}" for x in self._inside(side)]]
        lines += ["finally:", "    give(workspace)"]
        if not given_outputs:
            lines += side.finished(outputs)
        last = "y0" if len(outputs) == 1 and not given_outputs else _listed("y", len(outputs))
        head = f"def call(inputs{', outputs' if given_outputs else ''}):"
        exec("\n    ".join([head, *lines, f"return {last}"]), names)
        made: QuickCall = names["call"]
        return made

    def _inside(self, side: _Side) -> list[str]:
        """What is done in a workspace."""
        turn = "state.turn" if self._turns else "0"
        lines = [
            "if workspace.constants is not runtimes.constants:",
            "    workspace.bind(runtimes.constants, state)",
            f"table = workspace.tables[{turn}]",
        ]
        for letter, values in (("x", self._graph.inputs), ("y", self._graph.outputs)):
            for i, value in enumerate(values):
                lines.append(f"table[{self._table[value]}] = {side.address(f'{letter}{i}')}")
        return [*lines, f"if run(workspace.frames[{turn}]): refuse()", *self._end]


def _refuse() -> None:
    raise ExecutionError(BAD_INDEX)


def _shape(value: Value) -> tuple[int, ...]:
    return tuple([d for d in value.type.shape if isinstance(d, int)])


def _listed(letter: str, count: int) -> str:
    return "".join(f"{letter}{i}, " for i in range(count))


def _end(state: State) -> list[str]:
    """What is to do after a run for the variables."""
    lines = [f"memmove(table[{old}], table[{new}], {n})" for old, new, n in state.copies]
    return [*lines, "state.turn = 1 - state.turn"] if len(state.turns) == 2 else lines


class _Side(ABC):
    """How arguments of one class are checked, found and made."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def checks(self, letter: str, given: str, values: Sequence[Value]) -> list[str]:
        lines = [f"if len({given}) != {len(values)}: return None"]
        lines.append(f"{_listed(letter, len(values))} = {given}")
        for i, value in enumerate(values):
            self.names[f"{letter}{i}_shape"] = _shape(value)
            self.names[f"{letter}{i}_dtype"] = self.dtype(value)
            lines.append(f"if {self.is_wrong(f'{letter}{i}')}: return None")
        return lines

    def finished(self, outputs: Sequence[Value]) -> list[str]:
        """What becomes of outputs that were made here."""
        return []

    @abstractmethod
    def dtype(self, value: Value) -> Any: ...

    @abstractmethod
    def is_wrong(self, x: str) -> str: ...

    @abstractmethod
    def address(self, x: str) -> str: ...

    @abstractmethod
    def made(self, i: int, value: Value) -> str: ...


class _Arrays(_Side):
    """NumPy's arrays. There is no bfloat16 among them: such outputs leave as float32."""

    def finished(self, outputs: Sequence[Value]) -> list[str]:
        self.names["bfloat16"] = bfloat16
        narrow = (i for i, v in enumerate(outputs) if v.type.dtype is bfloat16)
        return [f"y{i} = from_storage(y{i}, bfloat16)" for i in narrow]

    def dtype(self, value: Value) -> Any:
        return value.type.dtype.storage

    def is_wrong(self, x: str) -> str:
        return (
            f"type({x}) is not ndarray or {x}.dtype != {x}_dtype or {x}.shape != {x}_shape "
            f"or not {x}.flags.c_contiguous"
        )

    def address(self, x: str) -> str:
        return f"address_of({x})"

    def made(self, i: int, value: Value) -> str:
        self.names["empty"] = np.empty
        self.names[f"y{i}_shape"] = _shape(value)
        self.names[f"y{i}_dtype"] = self.dtype(value)
        return f"empty(y{i}_shape, y{i}_dtype)"


class _Tensors(_Side):
    """PyTorch's tensors; `empty_like` is its quickest way to make one."""

    def __init__(self, names: dict[str, Any], torch: Any) -> None:
        super().__init__(names)
        self.torch = torch
        names["Tensor"], names["empty_like"] = torch.Tensor, torch.empty_like

    def dtype(self, value: Value) -> Any:
        return getattr(self.torch, value.type.dtype.name)

    def is_wrong(self, x: str) -> str:
        return (
            f"type({x}) is not Tensor or {x}.dtype is not {x}_dtype or {x}.shape != {x}_shape "
            f"or not {x}.is_contiguous() or not {x}.is_cpu"
        )

    def address(self, x: str) -> str:
        return f"{x}.data_ptr()"

    def made(self, i: int, value: Value) -> str:
        shape = _shape(value)
        self.names[f"y{i}_like"] = self.torch.empty(shape, dtype=self.dtype(value))
        return f"empty_like(y{i}_like)"
