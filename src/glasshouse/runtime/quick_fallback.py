"""Steps without a kernel on the quick path: what PyTorch or Python runs of a program, between
ranges of kernels.

What does not change between calls is found once: the op, its arguments but the operands, and, for
each workspace, tensors on the memory of the arena, of constants and of variables that such steps
read. A result lies where PyTorch put it, and is itself the output where it is one: with PyTorch's
strides, if no step reads it (eigenvectors lie by columns; turning 64 x 64 of them takes 8 us of
165). The general path found and copied all of it in every call: 0.1 to 0.3 ms a step, where a small
SVD takes 20 us.

A step may decide sizes (how many rows a mask keeps). They are variables of the call, as those that
inputs bring, and are written beside these for the kernels behind it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.ir.dim import Dim, Symbol, SymDim, as_symbol, bounds, product, symbols_of
from glasshouse.ir.dtype import DType, from_storage, to_storage
from glasshouse.ir.given_sizes import symbols_needed
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Kind
from glasshouse.lower.order import lying
from glasshouse.lower.program import Fallback, Program
from glasshouse.lower.symbols import symbol_name
from glasshouse.numpy_ref.executor import BodyMaker, failed, run_node, wrong_shape
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.checks import check_given_sizes
from glasshouse.runtime.quick_arguments import ArgumentClass, Arrays, spelled_shape, spelled_size
from glasshouse.runtime.sized_memory import SizedMemory
from glasshouse.runtime.tensor_check import Learner, TensorCheck, never
from glasshouse.runtime.tensor_memory import array_tensor, tensor_array
from glasshouse.runtime.workspace import Workspace

Call = Callable[..., Sequence[Any]]


def segments_of(program: Program) -> list[tuple[int, int]]:
    """Ranges of steps: each fallback by itself, everything between them in one call."""
    out: list[tuple[int, int]] = []
    begin = 0
    for number, step in enumerate(program.steps):
        if isinstance(step, Fallback):
            if begin < number:
                out.append((begin, number))
            out.append((number, number + 1))
            begin = number + 1
    if begin < len(program.steps):
        out.append((begin, len(program.steps)))
    return out


def has_fallbacks(program: Program) -> bool:
    return any(isinstance(s, Fallback) for s in program.steps)


def can_be_prepared(program: Program) -> bool:
    """Whether all that fallbacks read and give lies as its type says, and each size that one
    decides is an axis of a result."""
    graph = program.graph
    nodes = [s.node for s in program.steps if isinstance(s, Fallback)]
    values = {v for n in nodes for v in (*n.inputs, *n.outputs)} | {*graph.inputs, *graph.outputs}
    givers = graph.size_givers
    given = {symbol.name for n in nodes for symbol in _deciding(n, givers)}
    return (
        givers.keys() <= given
        and all(_takes_sizes(n) or not symbols_needed(n) for n in nodes)
        and not any(v in program.orders for v in graph.outputs)
        and all(_owner(program, v).type.dtype is v.type.dtype for v in values)
    )


def _takes_sizes(node: Node) -> bool:
    """Whether a node is a call of PyTorch's, which asks its operands for their sizes."""
    return node.op.name == "opaque" and hasattr(node.attrs.get("call"), "prepared")


def _deciding(node: Node, givers: Mapping[str, Node]) -> dict[Symbol, tuple[Value, int]]:
    """The result and its axis whose size each symbol is that this node decides."""
    found: dict[Symbol, tuple[Value, int]] = {}
    for value in node.outputs:
        for axis, dim in enumerate(value.type.shape):
            symbol = as_symbol(dim)
            if symbol is not None and givers.get(symbol.name) is node:
                found.setdefault(symbol, (value, axis))
    return found


def _owner(program: Program, value: Value) -> Value:
    """Whose memory a value is read from: its own, if it is handed over, else its buffer's."""
    graph = program.graph
    if value in graph.outputs or value in graph.inputs:
        return value
    if any(isinstance(s, Fallback) and value in s.node.outputs for s in program.steps):
        return value
    return program.buffer_of(value)


def _is_only_handed_over(program: Program, value: Value) -> bool:
    """Whether a step's result is one output, and nothing else reads it."""
    graph = program.graph
    return graph.outputs.count(value) == graph.uses(value) == 1 and value not in program.orders


class PreparedStep:
    """A node as a function of tensors, which gives tensors of its outputs' types, with their axes
    in the order in which they lie; contiguous ones, except for those that are only handed over."""

    def __init__(self, program: Program, node: Node, torch: Any, bodies: BodyMaker) -> None:
        self._node, self._bodies, self._torch = node, bodies, torch
        self._outputs = [
            (v.type.shape, _kind(torch, v.type.dtype), program.orders.get(v)) for v in node.outputs
        ]
        # Sizes that calls decide are looked at in each of them (`QuickFallbacks._sizes`).
        self._learn = Learner([all(isinstance(d, int) for d in v.type.shape) for v in node.outputs])
        self.operands = node.inputs
        self.loose = [_is_only_handed_over(program, v) for v in node.outputs]
        call = node.attrs.get("call") if node.op.name == "opaque" else None
        types = [_kind(torch, v.type.dtype) for v in node.inputs]
        prepared = getattr(call, "prepared", None)
        self.call: Call = self._in_python if prepared is None else prepared(types, self)

    def taken(self, found: Sequence[Any]) -> tuple[list[Any], TensorCheck]:
        """Results as they must be, and what tells the next ones that are so already."""
        made: list[Any] = []
        known = True
        outputs = zip(found, self._outputs, self.loose, strict=True)
        for t, (shape, kind, order), is_loose in outputs:
            if not _may_be(t.shape, shape):
                raise wrong_shape(self._node, t.shape, shape)
            given = t
            if t.dtype is not kind:
                t = t.to(kind)
            if not t.is_cpu:  # an op may name another device
                t = t.cpu()
            if t.requires_grad:
                t = t.detach()
            if order is not None:
                t = t.permute(order)
            made.append(t if is_loose else t.contiguous())
            known = known and made[-1] is given
        return made, self._learn(*found) if known else never

    def refuse(self, shape: Sequence[int], sizes: Mapping[str, int], wanted: Sequence[int]) -> None:
        """Say which size of a result is none that memory and kernels were made for."""
        check_given_sizes(self._node, sizes)
        raise wrong_shape(self._node, shape, wanted)

    def failed(self, operands: Sequence[Any], error: Exception) -> Exception:
        return failed(self._node, operands, error)

    def _in_python(self, *tensors: Any) -> list[Any]:
        """By the NumPy meaning, or by what else runs on arrays."""
        node = self._node
        stored = [tensor_array(t) for t in tensors]
        kinds = [v.type.dtype for v in node.inputs]
        arrays = [from_storage(a, d) for a, d in zip(stored, kinds, strict=True)]
        made = run_node(node, arrays, {}, self._bodies)
        out = []
        for array, value in zip(made, node.outputs, strict=True):
            laid = np.ascontiguousarray(to_storage(array, value.type.dtype)).reshape(array.shape)
            if any(np.may_share_memory(laid, a) for a in stored):  # memory that is used again
                laid = laid.copy()
            out.append(array_tensor(laid, _kind(self._torch, value.type.dtype)))
        return self.taken(out)[0]


def _may_be(found: Sequence[int], shape: Sequence[Dim]) -> bool:
    """Whether sizes are those of a shape, as far as it says them."""
    return found == shape or (
        len(found) == len(shape)
        and all(isinstance(d, SymDim) or d == n for n, d in zip(found, shape, strict=True))
    )


class QuickFallbacks:
    """The lines that run a program's steps, and the tensors that they read in each workspace."""

    def __init__(
        self,
        program: Program,
        turns: Sequence[Mapping[int, Array]],
        run: Callable[..., int],
        bodies: BodyMaker,
        times: Array | None = None,
    ) -> None:
        """`turns` are those of the state; `run` is `Executable.run`. `times`: seconds of steps are
        added there."""
        self.program, self._turns, self._run = program, turns, run
        self._bodies, self._times = bodies, times
        self.sized_memory: SizedMemory | None = None  # of values without a bound
        self._torch: Any = sys.modules["torch"]
        self._slots: dict[Value, int] = {}  # where views of memory stand, behind three addresses
        self._numbers = {v: i for i, v in reversed([*enumerate(program.graph.outputs)])}
        self._inputs = {v: i for i, v in enumerate(program.graph.inputs)}
        self._results: dict[Value, str] = {}
        self._steps: dict[int, PreparedStep] = {}
        for number, step in enumerate(program.steps):
            if isinstance(step, Fallback):
                self._steps[number] = PreparedStep(program, step.node, self._torch, bodies)
                for i, value in enumerate(step.node.outputs):
                    self._results[value] = f"r{number}_{i}"

    @property
    def made(self) -> set[int]:
        """Outputs, by number, that fallbacks make."""
        return {i for v, i in self._numbers.items() if v in self._results}

    @property
    def sized(self) -> dict[int, list[int]]:
        """The outputs, by number, whose sizes are known behind each step that decides some."""
        found: dict[int, list[int]] = {}
        givers = self.program.graph.size_givers
        steps = {step.node: n for n, step in enumerate(self.program.steps)}
        for i, value in enumerate(self.program.graph.outputs):
            names = {s for d in value.type.shape for s in symbols_of(d)}
            if decided := [steps[givers[s]] for s in names if s in givers]:
                found.setdefault(max(decided), []).append(i)
        return found

    @property
    def are_alone(self) -> bool:
        """Whether fallbacks make every output, once, from inputs and from each other's results:
        then no memory of a run's own takes part, where results are the outputs."""
        program, results = self.program, self._results
        outputs = program.graph.outputs
        read = {_owner(program, v) for step in self._steps.values() for v in step.operands}
        return (
            len(self._steps) == len(program.steps)
            and read <= results.keys() | self._inputs.keys()
            and set(outputs) <= results.keys()
            and len(set(outputs)) == len(outputs)
            and not self._turns[0]
        )

    def lines(self, side: ArgumentClass, handed_over: bool) -> Iterator[str]:
        """`side`: the class of the arguments. `handed_over`: results are the outputs; otherwise
        they are copied into these. Outputs whose sizes a step decides are made behind it."""
        names, arrays = side.names, isinstance(side, Arrays)
        outputs, sized = self.program.graph.outputs, self.sized
        results_leave = self.made if handed_over else set()
        names |= {"run_range": self._run, "views_of": self.views, "tensor_on": array_tensor}
        names["now"], names["times"] = time.perf_counter, self._times
        clock = 0 if self._times is None else self._times.ctypes.data
        on_their_own = handed_over and self.are_alone
        if not on_their_own:
            yield "views = (workspace.views or views_of(workspace))[turn]"
        table = self.program.memory.table
        for begin, end in segments_of(self.program):
            step = self.program.steps[begin]
            if not isinstance(step, Fallback):
                at = "views[0], views[1], views[2]"
                yield f"wrong = run_range({at}, {begin}, {end}, {clock})"
                yield "if wrong: refuse(wrong)"
                continue
            names[f"step{begin}"] = self._steps[begin].call
            if clock:
                yield "began = now()"
            given = ", ".join(self._operand(names, v, arrays) for v in step.node.inputs)
            results = "".join(f"{self._results[v]}, " for v in step.node.outputs)
            yield f"{results} = step{begin}({given})"
            yield from self._sizes(names, begin, step.node, on_their_own)
            for i in sized.get(begin, ()):
                if i not in results_leave:
                    yield from side.output(i, outputs[i])
                    if self.program.memory.direct[i]:
                        yield f"table[{table[outputs[i]]}] = y{i}_at"
            for value in step.node.outputs:
                result, place = self._results[value], table[value]
                number = self._numbers.get(value)
                if number is not None and not handed_over:
                    into = self._tensor(names, f"y{number}", value, arrays)
                    yield f"{into}.copy_({result})"
                elif number is None and place in self._turns[0]:
                    yield f"views[{self._slot(value)}].copy_({result})"
                else:
                    if not on_their_own:
                        yield f"table[{place}] = {result}.data_ptr()"
                    if number is not None:
                        yield f"y{number} = {result}"
            if clock:
                yield f"times[{begin}] += now() - began"

    def _sizes(
        self, names: dict[str, Any], number: int, node: Node, on_their_own: bool
    ) -> Iterator[str]:
        """Take the sizes that a step decided, and look at all that depend on any."""
        program = self.program
        decided = _deciding(node, program.graph.size_givers)
        wrong: list[str] = []
        for symbol, (value, axis) in decided.items():
            name = symbol_name(symbol.name)
            order = program.orders.get(value)
            place = axis if order is None else order.index(axis)
            yield f"{name} = {self._results[value]}.shape[{place}]"
            if symbol in program.symbols and not on_their_own:
                yield f"workspace.sizes[{program.symbols.index(symbol)}] = {name}"
            wrong += [f"{name} < {symbol.low}"] * (symbol.low > 0)
            wrong += [f"{name} > {symbol.high}"] * (symbol.high is not None)
        for value in node.outputs:
            if all(isinstance(d, int) for d in value.type.shape):
                continue
            known = {s for d in value.type.shape for s in symbols_of(d)}
            listed = ", ".join(f"{s!r}: {symbol_name(s)}" for s in sorted(known))
            names[f"refuse{number}"] = self._steps[number].refuse
            found = f"{self._results[value]}.shape"
            wanted = spelled_shape(lying(value.type.shape, program.orders.get(value)))
            yield f"if {' or '.join([f'{found} != {wanted}', *wrong])}:"
            yield f"    refuse{number}({found}, {{{listed}}}, {wanted})"

    def _operand(self, names: dict[str, Any], value: Value, arrays: bool) -> str:
        """The tensor that a step reads, with the axes of its type."""
        owner = _owner(self.program, value)
        order = self.program.orders.get(owner)
        if owner in self._results:
            found = self._results[owner]
        elif owner in self._inputs:
            found = self._tensor(names, f"x{self._inputs[owner]}", owner, arrays)
        elif owner in self._numbers:
            found = self._y_tensor(names, owner, arrays)
        elif all(isinstance(d, int) for d in value.type.shape):
            return f"views[{self._slot(value)}]"
        else:  # all the room that there is for it, of which a call uses a part
            count = spelled_size(product(value.type.shape))
            found = f"views[{self._slot(value)}].narrow(0, 0, {count})"
        shape = lying(value.type.shape, order)
        if found.startswith("views") or shape != lying(owner.type.shape, order):
            found += f".view({spelled_shape(shape)})"
        return found if order is None else f"{found}.permute({_inverse(order)})"

    def _y_tensor(self, names: dict[str, Any], owner: Value, arrays: bool) -> str:
        if owner.node.op.kind is Kind.SOURCE:  # copied to the output; it lies elsewhere
            return f"views[{self._slot(owner)}]"
        return self._tensor(names, f"y{self._numbers[owner]}", owner, arrays)

    def _tensor(self, names: dict[str, Any], name: str, value: Value, arrays: bool) -> str:
        if not arrays:
            return name
        names[f"{name}_kind"] = _kind(self._torch, value.type.dtype)
        return f"tensor_on({name}, {name}_kind)"

    def _slot(self, value: Value) -> int:
        return self._slots.setdefault(value, 3 + len(self._slots))

    # -------------------------------------------------------------------------- once per workspace
    def views(self, workspace: Workspace) -> list[list[Any]]:
        """For each turn: where table, arena and sizes are, and tensors on the memory of values."""
        workspace.views = [
            [*workspace.addresses(turn), *(self._view(workspace, v, turn) for v in self._slots)]
            for turn in range(len(self._turns))
        ]
        return workspace.views

    def _view(self, workspace: Workspace, value: Value, turn: int) -> Any:
        """As `Run._read` finds a value that has no memory of a call's own; flat and with its most
        elements, where its sizes differ between calls."""
        program, plan = self.program, self.program.memory
        owner = _owner(program, value)
        dtype, order = value.type.dtype, program.orders.get(owner)
        sized = [d for d in lying(value.type.shape, order) if isinstance(d, int)]
        is_sized = len(sized) == len(value.type.shape)
        room = None if self.sized_memory is None else self.sized_memory.bytes_of(workspace, owner)
        if room is not None:
            flat = room[: room.size // dtype.itemsize * dtype.itemsize].view(dtype.storage)
        elif owner in plan.table:
            assert workspace.constants is not None  # bound before any run
            place = plan.table[owner]
            held = self._turns[turn].get(place, workspace.constants.arrays.get(place))
            flat = np.asarray(owner.node.attrs["data"] if held is None else held).reshape(-1)
        else:
            begin = plan.arena[owner]
            most = int(bounds(product(value.type.shape))[1])
            flat = workspace.arena[begin : begin + most * dtype.itemsize].view(dtype.storage)
        laid_out = flat.reshape(sized) if is_sized else flat
        found = array_tensor(laid_out, _kind(self._torch, dtype))
        return found.permute(_inverse(order)) if order is not None and is_sized else found


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(order))


def _kind(torch: Any, dtype: DType) -> Any:
    return getattr(torch, dtype.name)
