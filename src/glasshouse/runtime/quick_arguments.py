"""How the quick path checks, finds and makes arguments: lines of Python for one class.

Sizes that are not known before a call are read off the inputs, into variables that shapes are then
written with.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.ir.dim import Dim, Function, Symbol, as_symbol
from glasshouse.ir.dtype import ALL
from glasshouse.ir.graph import Value
from glasshouse.lower.symbols import symbol_name
from glasshouse.runtime.tensor_check import Learner, never


def listed(letter: str, count: int) -> str:
    return "".join(f"{letter}{i}, " for i in range(count))


def size_places(
    inputs: Sequence[Value], symbols: Sequence[Symbol]
) -> dict[Symbol, tuple[int, int]] | None:
    """The input and the axis whose size each symbol is; None if one is no axis by itself."""
    found: dict[Symbol, tuple[int, int]] = {}
    for number, value in enumerate(inputs):
        for axis, dim in enumerate(value.type.shape):
            symbol = as_symbol(dim)
            if symbol is not None:
                found.setdefault(symbol, (number, axis))
    return {s: found[s] for s in symbols} if found.keys() >= set(symbols) else None


def spelled_size(dim: Dim) -> str:
    """A size in Python; symbols are variables named as in C++, which no other name here is."""
    if isinstance(dim, int):
        return str(dim)
    terms = (
        " * ".join([str(coefficient), *map(_atom, monomial)]) if coefficient != 1 or not monomial
        else " * ".join(map(_atom, monomial))
        for monomial, coefficient in dim.terms
    )  # fmt: skip
    return f"({' + '.join(terms)})"


def _atom(atom: Symbol | Function) -> str:
    if isinstance(atom, Symbol):
        return symbol_name(atom.name)
    left, right = spelled_size(atom.left), spelled_size(atom.right)
    return (
        f"{atom.kind}({left}, {right})"
        if atom.kind in ("min", "max")
        else f"({left} {atom.kind} {right})"
    )


def spelled_shape(shape: Sequence[Dim]) -> str:
    """Sizes as a tuple in Python."""
    return f"({''.join(f'{spelled_size(d)}, ' for d in shape)})"


PAIRS = 12
"""Pairs of arguments that are compared one by one: 0.04 us each; `overlap` takes 1.3 us."""


def shared(
    inputs: Mapping[str, Value], outputs: Mapping[str, Value], over: Mapping[str, str] | None = None
) -> str:
    """Whether an output shares a byte with another argument; all addresses are known. `over`: where
    an input may lie on an output, which is its new value."""
    ends = {x: f"{x}_at + {byte_count(v)}" for x, v in {**inputs, **outputs}.items()}
    for x, y in (over or {}).items():
        ends[x] = f"(0 if {x}_at == {y}_at else {ends[x]})"
    written = list(outputs)
    pairs = [(y, x) for i, y in enumerate(written) for x in (*inputs, *written[:i])]
    if len(pairs) <= PAIRS:
        return " or ".join(f"{y}_at < {ends[x]} and {x}_at < {ends[y]}" for y, x in pairs)
    each = {x: f"({x}_at, {end}), " for x, end in ends.items()}
    spans = ("".join(each[x] for x in side) for side in (outputs, inputs))
    return "overlap(({}), ({}))".format(*spans)


def byte_count(value: Value) -> str:
    """The bytes that a value takes, in Python."""
    return " * ".join(spelled_size(d) for d in (*value.type.shape, value.type.dtype.itemsize))


class ArgumentClass(ABC):
    """Arguments of one class; `names` are those that the lines may use."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def taken(
        self, inputs: Sequence[Value], places: dict[Symbol, tuple[int, int]]
    ) -> Iterator[str]:
        """Inputs into x0, x1 ..., sizes into variables; calls with wrong ones are not served."""
        yield f"if len(inputs) != {len(inputs)}: return None"
        yield f"{listed('x', len(inputs))} = inputs"
        for symbol, (number, axis) in places.items():
            x, size = f"x{number}", symbol_name(symbol.name)
            yield f"if type({x}) is not Kind or len({x}.shape) <= {axis}: return None"
            yield f"{size} = {x}.shape[{axis}]"
            most = "" if symbol.high is None else f" <= {symbol.high}"
            yield f"if not {symbol.low} <= {size}{most}: return None"

    def filled(self, outputs: Sequence[Value]) -> Iterator[str]:
        """Outputs that are given, into y0, y1 ..."""
        known = "type(outputs) not in (list, tuple)"
        yield f"if {known} or len(outputs) != {len(outputs)}: return None"
        yield f"{listed('y', len(outputs))} = outputs"

    def made(
        self, outputs: Sequence[Value], on: Mapping[int, int], later: Container[int] = ()
    ) -> Iterator[str]:
        """Outputs of the right size, into y0, y1 ..., their addresses into y0_at ...; those that
        share the buffers of inputs, by number, are these. Steps make the ones of `later`."""
        for i, value in enumerate(outputs):
            if i in later:
                continue
            if i in on:
                yield f"y{i}, y{i}_at = x{on[i]}, x{on[i]}_at"
                continue
            yield from self.output(i, value)

    def output(self, i: int, value: Value) -> Iterator[str]:
        """One output of the right size, as above; all sizes that it depends on are known."""
        self.names[f"y{i}_dtype"] = self.dtype(value)
        yield f"y{i} = {self.new(i, value)}"
        yield from self.address(f"y{i}", "")

    @abstractmethod
    def checked(
        self,
        values: Mapping[str, Value],
        written: Container[str] = (),
        unread: Container[str] = (),
    ) -> Iterator[str]:
        """Arguments that are in variables by these names are what the graph wants there, and their
        addresses go into x0_at ...; calls with others are not served. `written`: inputs that the
        run writes to; `unread`: those that are there for their sizes, wherever they lie."""

    def finished(self, outputs: Sequence[Value]) -> list[str]:
        """What becomes of outputs that were made here."""
        return []

    @abstractmethod
    def dtype(self, value: Value) -> Any: ...

    @abstractmethod
    def address(self, x: str, unless: str) -> Iterator[str]:
        """The address of `x` into a variable; where it is not found at once, `unless` is done."""

    @abstractmethod
    def new(self, i: int, value: Value) -> str: ...


class Arrays(ArgumentClass):
    """NumPy's arrays. There is no bfloat16 and no float8 among them: such outputs leave as
    float32."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__(names)
        names["Kind"], names["empty"] = np.ndarray, np.empty
        names.update((d.name, d) for d in ALL if d.is_carried)
        names["addressof"], names["from_buffer"] = ctypes.addressof, ctypes.c_char.from_buffer

    def checked(
        self,
        values: Mapping[str, Value],
        written: Container[str] = (),
        unread: Container[str] = (),
    ) -> Iterator[str]:
        for x, value in values.items():
            self.names[f"{x}_dtype"] = self.dtype(value)
            wrong = f"type({x}) is not Kind or {x}.shape != {spelled_shape(value.type.shape)}"
            wrong += f" or ({x}.dtype is not {x}_dtype and {x}.dtype != {x}_dtype)"
            yield f"if {wrong}: return None"
            if x in unread:
                yield f"{x}_at = 0"
                continue
            # Inputs may be read-only; an output that is, is refused by the general path.
            lies_well = f"if not {x}.flags.c_contiguous: return None"
            is_read = x.startswith("x") and x not in written
            yield from self.address(x, lies_well if is_read else "return None")

    def finished(self, outputs: Sequence[Value]) -> list[str]:
        kinds = enumerate(v.type.dtype for v in outputs)
        narrow = ((i, d.name) for i, d in kinds if d.is_carried)
        return [f"y{i} = from_storage(y{i}, {name})" for i, name in narrow]

    def dtype(self, value: Value) -> Any:
        return value.type.dtype.storage

    def address(self, x: str, unless: str) -> Iterator[str]:
        """0.15 us, where `array.ctypes.data` takes 1.0; ctypes refuses what is not contiguous, is
        read-only or without elements."""
        yield f"try: {x}_at = addressof(from_buffer({x}))"
        yield "except (TypeError, ValueError, BufferError):"
        if unless:
            yield f"    {unless}"
        yield f"    {x}_at = {x}.ctypes.data"

    def new(self, i: int, value: Value) -> str:
        return f"empty({spelled_shape(value.type.shape)}, y{i}_dtype)"


class Tensors(ArgumentClass):
    """PyTorch's tensors; `empty_like` is its quickest way to make one of a size that is known."""

    def __init__(self, names: dict[str, Any], torch: Any) -> None:
        super().__init__(names)
        self.torch = torch
        names["Kind"], names["empty_like"], names["empty"] = (
            torch.Tensor, torch.empty_like, torch.empty,
        )  # fmt: skip

    def checked(
        self,
        values: Mapping[str, Value],
        written: Container[str] = (),
        unread: Container[str] = (),
    ) -> Iterator[str]:
        fixed = [all(isinstance(d, int) for d in v.type.shape) for v in values.values()]
        self.names["known"], self.names["learn"] = never, Learner(fixed)
        given = ", ".join(values)
        given_here = [x for x in values if x.startswith("x")]
        read = [x for x in given_here if x not in written and x not in unread]
        yield "global known"
        yield f"if not known({given}):"
        for x, value in values.items():
            self.names[f"{x}_dtype"] = self.dtype(value)
            # The class first: sparse and nested tensors have no strides, or no sizes.
            wrong = f"type({x}) is not Kind or {x}.shape != {spelled_shape(value.type.shape)}"
            wrong += f" or {x}.dtype is not {x}_dtype or not {x}.is_cpu or {x}.is_neg()"
            wrong += "" if x in read or x in unread else f" or not {x}.is_contiguous()"
            yield f"    if {wrong}: return None"
            if x.startswith("x"):
                yield f"    if {x}.requires_grad: return None"
        lie_well = " and ".join(f"{x}.is_contiguous()" for x in read)
        yield f"    if {lie_well or 'True'}: known = learn({given})"
        if read:  # what PyTorch copies here takes 2 us, on the general path 30
            yield f"    else: {'; '.join(f'{x} = {x}.contiguous()' for x in read)}"
        for (x, value), is_fixed in zip(values.items(), fixed, strict=True):
            if not is_fixed:
                yield f"if {x}.shape != {spelled_shape(value.type.shape)}: return None"
            if x in unread:
                yield f"{x}_at = 0"
                continue
            if not is_fixed:
                copied = f"{x} = {x}.contiguous()" if x in read else "return None"
                yield f"if not {x}.is_contiguous(): {copied}"
            yield from self.address(x, "")

    def dtype(self, value: Value) -> Any:
        return getattr(self.torch, value.type.dtype.name)

    def address(self, x: str, unless: str) -> Iterator[str]:
        yield f"{x}_at = {x}.data_ptr()"

    def new(self, i: int, value: Value) -> str:
        shape = value.type.shape
        if not all(isinstance(d, int) for d in shape):
            return f"empty({spelled_shape(shape)}, dtype=y{i}_dtype, device='cpu')"
        self.names[f"y{i}_like"] = self.torch.empty(shape, dtype=self.dtype(value), device="cpu")
        return f"empty_like(y{i}_like)"
