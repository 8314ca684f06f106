"""How the common case is run with the least overhead: kernels alone, sizes within bounds.

All that does not depend on the call (tables of pointers, shapes, arguments) is made once. What is
left is checking the arguments, writing their addresses into the table (and sizes beside, where
inputs bring them: 1 us, where the general path takes 30), and entering the library.
That is written out as straight Python for each program, as `dataclasses` does it: without loops,
look-ups and inner calls a model of two tiny kernels takes 1 us less. With PyTorch's tensors half of
the time is PyTorch making the output.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Container
from functools import partial
from threading import get_ident
from typing import Any

import numpy as np

from glasshouse.ir.dim import Symbol
from glasshouse.ir.dtype import from_storage
from glasshouse.ir.op import Kind
from glasshouse.lower.program import Program
from glasshouse.lower.symbols import symbol_name
from glasshouse.runtime.faults import fault
from glasshouse.runtime.openmp import may_rest, pause
from glasshouse.runtime.overlap import overlap
from glasshouse.runtime.quick_arguments import (
    Arrays,
    Tensors,
    byte_count,
    listed,
    shared,
    size_places,
)
from glasshouse.runtime.quick_fallback import QuickFallbacks, can_be_prepared, has_fallbacks
from glasshouse.runtime.sized_memory import SizedMemory
from glasshouse.runtime.updates import State
from glasshouse.runtime.workspace import Runtimes

QuickCall = Callable[..., Any]
"""(inputs) or (inputs, outputs) -> the output, or outputs; None: not served."""


_RUN = ["wrong = run(workspace.frames[turn])", "if wrong: refuse(wrong)"]


class QuickRun:
    """A program whose calls differ in nothing but sizes and the data of inputs and outputs."""

    def __init__(
        self,
        program: Program,
        runtimes: Runtimes,
        run: Any,
        rests: bool = False,
        fallbacks: Callable[[], QuickFallbacks] | None = None,
    ) -> None:
        """`run` is the library's function that takes a frame. `rests`: PyTorch's threads are sent
        to rest before it. `fallbacks`: makes what runs the steps of a program that has some."""
        self._make_fallbacks = fallbacks
        self._fallbacks: QuickFallbacks | None = None  # made for the first call
        self._rests = rests
        self._graph = program.graph
        self._table = program.memory.table
        self._symbols = program.symbols
        self._places = _places_of(program) or {}
        state = runtimes.state
        plan = program.memory
        self._sized: SizedMemory | None = None
        if plan.unbounded or plan.workspaces:
            self._sized = SizedMemory(program, runtimes, list(self._places))
        self._common = {
            "run": run, "state": state,
            "memmove": ctypes.memmove, "refuse": partial(_refuse, program), "runtimes": runtimes,
            "overlap": overlap, "from_storage": from_storage, "get_ident": get_ident,
            "seed": runtimes.seed, "fit": None if self._sized is None else self._sized.fit,
        }  # fmt: skip
        self._changes = runtimes.changes
        self._turns = len(state.turns) == 2
        self._overwrites = program.memory.overwrites
        self._direct = program.memory.direct
        self._end = _end(state)
        self._bound: dict[tuple[frozenset[int], frozenset[int]], QuickCall | None] = {}

    @staticmethod
    def serves(program: Program) -> bool:
        """Whether a program is of this kind."""
        graph, plan = program.graph, program.memory
        return (
            bool(graph.inputs and graph.outputs)
            and all(u.new.node.op.kind is not Kind.SOURCE for u in plan.updates)
            and (places := _places_of(program)) is not None
            and SizedMemory.serves(program, list(places))
            and (not has_fallbacks(program) or can_be_prepared(program))
        )

    def call_for(self, kind: type, given_outputs: bool, over: bool = False) -> QuickCall | None:
        """The function for arguments that are all of this class; None: there is none.

        `over`: outputs that may share buffers of inputs do, and the inputs are returned instead.
        """
        torch: Any = sys.modules.get("torch")
        if kind is not np.ndarray and (torch is None or kind is not torch.Tensor):
            return None
        if self._make_fallbacks is not None:
            # A step that fails must leave arguments as they are.
            if torch is None or over:
                return None
            self._fallbacks = self._fallbacks or self._make_fallbacks()
            self._fallbacks.sized_memory = self._sized
        sized = {} if self._fallbacks is None else self._fallbacks.sized
        later = {i for many in sized.values() for i in many}  # steps decide their sizes
        if later and given_outputs:
            return None
        names: dict[str, Any] = dict(self._common)
        side = Arrays(names) if kind is np.ndarray else Tensors(names, torch)
        inputs, outputs = self._graph.inputs, self._graph.outputs
        values = {f"x{i}": v for i, v in enumerate(inputs)}
        checks = [*side.taken(inputs, self._places)]
        if given_outputs:
            values.update({f"y{i}": v for i, v in enumerate(outputs)})
            checks += side.filled(outputs)
        changed = {f"x{i}" for i in self._overwrites.values()} if over else set()
        unread = {f"x{i}" for i, v in enumerate(inputs) if not self._graph.uses(v)}
        checks += side.checked(values, changed, unread)
        if over:
            read = {x: v for x, v in values.items() if x not in changed}
            written = {x: values[x] for x in sorted(changed)}
            checks += [f"if {shared(read, written)}: return None"] * (len(values) > 1)
        if given_outputs:
            x, y = ({x: v for x, v in values.items() if x.startswith(letter)} for letter in "xy")
            on = {f"x{i}": f"y{number}" for number, i in self._overwrites.items()}
            on = {} if self._fallbacks is not None else on
            checks += [f"if {shared(x, y, on)}: return None"]  # the general path copies
        # Results of PyTorch's are the outputs, where these are tensors.
        handed_over: set[int] = set()
        if self._fallbacks is not None and not given_outputs and kind is not np.ndarray:
            handed_over = self._fallbacks.made
        later |= handed_over
        # Sparse and nested tensors have no strides to ask for: the general path says what they are.
        lines = ["try:", *[f"    {x}" for x in checks], "except RuntimeError: return None"]
        if not given_outputs:
            lines += side.made(outputs, self._overwrites if over else {}, later)
        if self._rests and kind is not np.ndarray and (resting := pause()) is not None:
            names["pause"], names["may_rest"] = resting, may_rest
            lines += ["if may_rest[0]: pause(1)"]
        steps = _RUN
        if self._fallbacks is not None:
            steps = [*self._fallbacks.lines(side, bool(handed_over))]
        if handed_over and self._fallbacks is not None and self._fallbacks.are_alone:
            lines += steps  # taking a workspace and giving it back takes 1 us
        else:
            lines += self._run_lines(steps, later)
        if not given_outputs:
            lines += side.finished(outputs)
        last = "y0" if len(outputs) == 1 and not given_outputs else listed("y", len(outputs))
        head = f"def call(inputs{', outputs' if given_outputs else ''}):"
        exec("\n    ".join([head, *lines, f"return {last}"]), names)
        made: QuickCall = names["call"]
        return made

    def bound_for(
        self, run: Any, inputs: frozenset[int], outputs: frozenset[int]
    ) -> QuickCall | None:
        """`call(at, arrays)` for arrays that lie in the same place in every call: the addresses of
        these inputs and outputs come as one sequence, the other inputs as arrays; gives the other
        outputs. None: sizes differ from call to call, PyTorch runs a part of it, or an output is
        not stored as it is carried. `run` is the library's function, as above."""
        if (inputs, outputs) not in self._bound:
            self._bound[inputs, outputs] = self._bound_for(run, inputs, outputs)
        return self._bound[inputs, outputs]

    def _bound_for(
        self, run: Any, inputs: frozenset[int], outputs: frozenset[int]
    ) -> QuickCall | None:
        carried = any(v.type.dtype.is_carried for v in self._graph.outputs)
        if self._make_fallbacks is not None or self._places or carried:
            return None
        names: dict[str, Any] = {**self._common, "run": run}
        side = Arrays(names)
        every = self._graph.inputs, self._graph.outputs
        xs = {f"x{i}": v for i, v in enumerate(every[0]) if i not in inputs}
        at = [f"x{i}_at" for i in range(len(every[0])) if i in inputs]
        at += [f"y{i}_at" for i in range(len(every[1])) if i in outputs]
        lines = [
            f"if len(arrays) != {len(xs)}: return None",
            *[f"{', '.join(xs)}, = arrays"] * bool(xs),
            *[f"{', '.join(at)}, = at"] * bool(at),
            *side.checked(xs),
            *side.made(every[1], {}, outputs),
            *self._run_lines(_RUN),
        ]
        made = ", ".join(f"y{i}" for i in range(len(every[1])) if i not in outputs)
        exec("\n    ".join(["def call(at, arrays):", *lines, f"return [{made}]"]), names)
        call: QuickCall = names["call"]
        return call

    def _run_lines(self, steps: list[str], later: Container[int] = ()) -> list[str]:
        """Take a workspace, do the steps in it, give it back."""
        take, give = ("take", "give") if self._make_fallbacks is None else ("enter", "leave")
        begins = ["runtimes.stepping = get_ident()"] * self._changes
        ends = ["runtimes.stepping = 0"] * self._changes
        return [
            f"workspace = runtimes.{take}()",
            *begins,
            "try:",
            *[f"    {x}" for x in self._inside(steps, later)],
            "finally:",
            *[f"    {x}" for x in (*ends, f"runtimes.{give}(workspace)")],
        ]

    def _fit_lines(self) -> list[str]:
        """Memory for what has no bound, where sizes are not those of the last call."""
        if self._sized is None:
            return []
        sizes = "".join(f"{symbol_name(symbol.name)}, " for symbol in self._places)
        return [f"if workspace.fitted != ({sizes}): fit(workspace, ({sizes}))"]

    def _inside(self, steps: list[str], later: Container[int]) -> list[str]:
        """What is done in a workspace; outputs that steps make have no address before."""
        lines = [
            f"turn = {'state.turn' if self._turns else '0'}",
            "if workspace.constants is not runtimes.constants:",
            "    workspace.bind(runtimes.constants, state)",
            *self._fit_lines(),
            "table = workspace.tables[turn]",
            *["seed()"] * (self._common["seed"] is not None),
        ]
        for symbol in self._places:
            number = self._symbols.index(symbol)
            lines.append(f"workspace.sizes[{number}] = {symbol_name(symbol.name)}")
        outputs = self._graph.outputs
        for letter, values in (("x", self._graph.inputs), ("y", outputs)):
            for i, value in enumerate(values):
                if letter == "x" or (self._direct[i] and i not in later):
                    lines.append(f"table[{self._table[value]}] = {letter}{i}_at")
        copies: dict[bool, list[str]] = {True: [], False: []}
        for i, value in enumerate(outputs):
            if not self._direct[i]:
                # No step makes it: an argument, a constant, or a variable as it was before the run.
                before = value.node.op.kind is Kind.SOURCE
                copy = f"memmove(y{i}_at, table[{self._table[value]}], {byte_count(value)})"
                copies[before].append(copy)
        return [
            *lines,
            *copies[True],
            *steps,
            *copies[False],
            *self._end,
        ]


def _places_of(program: Program) -> dict[Symbol, tuple[int, int]] | None:
    """Where inputs bring the sizes that no step decides; None: one is no axis by itself."""
    graph = program.graph
    return size_places(
        graph.inputs, [s for s in program.symbols if s.name not in graph.size_givers]
    )


def _refuse(program: Program, found: int) -> None:
    raise fault(program, found)


def _end(state: State) -> list[str]:
    """What is to do after a run for the variables."""
    lines = [f"memmove(table[{old}], table[{new}], {n})" for old, new, n in state.copies]
    return [*lines, "state.turn = 1 - state.turn"] if len(state.turns) == 2 else lines
