"""What a node of an op without a spelling holds: the call of PyTorch that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import Any, Protocol

import numpy as np
import torch

from glasshouse.frontend.torch.ctc import direct
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS, WITHOUT_NUMPY
from glasshouse.frontend.torch.kept import by_mask, masked_select, nonzero, unique
from glasshouse.runtime.arrays import as_complex
from glasshouse.runtime.seeds import drawing
from glasshouse.runtime.tensor_check import never
from glasshouse.runtime.tensor_memory import tensor_array

COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional")
"""Namespaces of ops of torch.distributed; each returns before its result is there."""


@dataclass(frozen=True)
class Hole:
    """The place of an operand among an op's arguments: a tensor of this type, or an int."""

    number: int
    dtype: torch.dtype | None


@dataclass(frozen=True)
class TorchCall:
    """A call of a PyTorch op on arrays; `target` is its name below `torch.ops`."""

    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    written: tuple[int | str, ...] = ()  # arguments that the op writes to: what it is called for
    results: tuple[int, ...] = ()  # which of its results count

    def __call__(self, *arrays: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
        return tuple(as_array(t) for t in self._results(arrays))

    def on_tensors(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The same on tensors, where they are; complex numbers go in and out as pairs."""
        found = [t.resolve_conj().resolve_neg() for t in self._results(tensors)]
        return tuple(torch.view_as_real(t) if t.dtype in COMPLEX_PARTS else t for t in found)

    def prepared(
        self, given: Sequence[torch.dtype], step: OpaqueStep
    ) -> Callable[..., Sequence[torch.Tensor]]:
        """`on_tensors` for operands of these types in main memory, with the op and its other
        arguments found once, and results as the step must give them."""
        collective = self.target.partition(".")[0] in COLLECTIVES
        if self.written or self.draws or collective:
            return partial(self._taken, step)
        return prepared_call(self, given, step)

    def _taken(self, step: OpaqueStep, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        try:
            found = self.on_tensors(*tensors)
        except Exception as error:
            raise step.failed(tensors, error) from error
        return step.taken(found)[0]

    def _results(self, operands: Sequence[Any]) -> list[torch.Tensor]:
        args, kwargs = self._arguments(operands)
        flat = flat_tensors(self._called(args, kwargs))
        if _leaves_operands(self.target):
            # Some ops that do nothing (dropout outside of training) give back what they were given.
            given = {
                t.untyped_storage().data_ptr() for t in flat_tensors([args, [*kwargs.values()]])
            }
            flat = [t.clone() if t.untyped_storage().data_ptr() in given else t for t in flat]
        many = [flat[i] for i in self.results] + flat_tensors(
            [argument_at(args, kwargs, w) for w in self.written]
        )
        if self.target.partition(".")[0] in COLLECTIVES:
            many = [torch.ops._c10d_functional.wait_tensor(t) for t in many]
        return many

    def called(self, arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
        """What the op gives, as PyTorch gives it."""
        return self._called(*self._arguments(arrays))

    def _arguments(self, arrays: Sequence[Any]) -> tuple[Any, Any]:
        copied = not _leaves_operands(self.target)
        if "._linalg_" in self.target:
            # Of what lies row by row these give the factors of the transpose; gradients that read
            # them were traced for such operands, so others are copied.
            arrays = [
                np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a.contiguous()
                for a in arrays
            ]
        return _filled(self.args, arrays, copied), _filled(self.kwargs, arrays, copied)

    def _called(self, args: Any, kwargs: Any) -> Any:
        with torch.no_grad(), drawing() if self.draws else nullcontext():
            return _op(self.target)(*args, **kwargs)

    @property
    def draws(self) -> bool:
        """Whether the op takes numbers from PyTorch's generator."""
        return _draws(self.target)


class OpaqueStep(Protocol):
    """What a call is prepared for: says what becomes of its results, and of an error."""

    loose: Sequence[bool]
    """Results that may lie as PyTorch has them; the others are contiguous."""

    def taken(
        self, found: Sequence[torch.Tensor]
    ) -> tuple[Sequence[torch.Tensor], Callable[..., bool]]: ...

    def failed(self, operands: Sequence[Any], error: Exception) -> Exception: ...


def prepared_call(
    call: TorchCall, given: Sequence[torch.dtype], step: OpaqueStep
) -> Callable[..., Sequence[torch.Tensor]]:
    """A call with its arguments and results written out as Python, as `dataclasses` does it: in one
    function, since after 100 us of LAPACK each line and each call of PyTorch's takes 0.3 us."""
    operands = [f"x{i}" for i in range(len(given))]
    arguments = _Arguments(call, given)
    names = arguments.names
    names |= {
        "op": _quickest(call), "as_complex": as_complex, "flat_tensors": flat_tensors,
        "is_alias_of": torch._C._is_alias_of, "plain": _plain, "known": never, "step": step,
        "with_gradients": torch.is_grad_enabled, "set_gradients": torch._C._set_grad_enabled,
    }  # fmt: skip
    lines = [
        "global known",
        "has_gradients = with_gradients()",
        "if has_gradients: set_gradients(False)",  # `no_grad`, whose class takes 0.8 us
        f"try: out = op({arguments.spelled()})",
        f"except Exception as error: raise step.failed([{', '.join(operands)}], error) from error",
        "finally:",
        "    if has_gradients: set_gradients(True)",
    ]
    returns = _op(call.target)._schema.returns
    many = len(returns) > 1
    if not all(str(r.type) == "Tensor" for r in returns):  # lists, or what is no tensor
        many = True
        lines.append("out = flat_tensors(out)")
    results = [f"t{n}" for n in range(len(call.results))]
    for t, i, is_loose in zip(results, call.results, step.loose, strict=True):
        lines.append(f"{t} = out{f'[{i}]' * many}{'' if is_loose else '.contiguous()'}")
        if _leaves_operands(call.target) and operands:
            shares = " or ".join(f"is_alias_of({t}, {x})" for x in operands)
            lines.append(f"if {shares}: {t} = {t}.clone()")
    listed = ", ".join(results)
    lines += [
        f"if not known({listed}):",
        f"    ({listed},), known = step.taken([plain(t) for t in [{listed}]])",
        f"return {listed},",
    ]
    exec("\n    ".join([f"def call({', '.join(operands)}):", *lines]), names)
    made: Callable[..., Sequence[torch.Tensor]] = names["call"]
    return made


class _Arguments:
    """An op's arguments as Python; what they name is in `names`."""

    def __init__(self, call: TorchCall, given: Sequence[torch.dtype]) -> None:
        self.names: dict[str, Any] = {}
        self._call = call
        self._given = given
        self._shares = _leaves_operands(call.target)
        self._by_rows = "._linalg_" in call.target  # see `TorchCall._arguments`

    def spelled(self) -> str:
        passed = [self._spelled(a) for a in self._call.args]
        passed += [f"**{{{k!r}: {self._spelled(v)}}}" for k, v in self._call.kwargs.items()]
        return ", ".join(passed)

    def _spelled(self, argument: Any) -> str:
        if isinstance(argument, Hole):
            return self._operand(argument)
        if isinstance(argument, dict):
            return f"{{{', '.join(f'{k!r}: {self._spelled(v)}' for k, v in argument.items())}}}"
        if type(argument) in (list, tuple) and any(_has_hole(a) for a in argument):
            inner = "".join(f"{self._spelled(a)}, " for a in argument)
            return f"[{inner}]" if isinstance(argument, list) else f"({inner})"
        name = f"c{len(self.names)}"
        self.names[name] = argument
        return name

    def _operand(self, hole: Hole) -> str:
        x = f"x{hole.number}"
        if hole.dtype is None:
            return f"int({x})"
        if self._by_rows:
            x += ".contiguous()"
        if not self._shares:
            x += ".clone()"
        wanted = COMPLEX_PARTS.get(hole.dtype, hole.dtype)
        if wanted != self._given[hole.number]:
            self.names[f"kind{hole.number}"] = wanted
            x += f".to(kind{hole.number})"
        return f"as_complex({x})" if hole.dtype in COMPLEX_PARTS else x


def _has_hole(given: Any) -> bool:
    if isinstance(given, dict):
        return any(map(_has_hole, given.values()))
    return isinstance(given, Hole) or (
        isinstance(given, (list, tuple)) and any(map(_has_hole, given))
    )


@cache
def _op(target: str) -> Any:
    return reduce(getattr, target.split("."), torch.ops)


_BOUND = ("_VariableFunctions", "_linalg", "_nn", "_special", "_fft")
"""Where PyTorch keeps its functions for Python."""


_FASTER = {
    "aten._unique2.default": unique,
    "aten.argwhere.default": nonzero,
    "aten.masked_select.default": masked_select,
    "aten.nonzero.default": nonzero,
}


def _quickest(call: TorchCall) -> Any:
    """The op, by PyTorch's own function for Python where only one op has its name: that reads its
    arguments in 1 us, where what is found below `torch.ops` takes 3 to 5."""
    op = _op(call.target)
    if (ours := direct(call.target, call.results)) is not None:
        return ours
    if call.target == "aten.index.Tensor" and _is_one_mask(*call.args[1:]):
        return by_mask
    if call.target in _FASTER and not call.kwargs:
        return _FASTER[call.target]
    space, _, rest = call.target.partition(".")
    name, _, overload = rest.rpartition(".")
    packet = getattr(op, "_overloadpacket", None)
    if space != "aten" or overload != "default" or packet is None or "self" in call.kwargs:
        return op
    others = [getattr(packet, o)._schema for o in packet.overloads() if o != overload]
    if not all(any(a.is_out for a in schema.arguments) for schema in others):
        return op
    found = (getattr(getattr(torch._C, space, None), name, None) for space in _BOUND)
    return next((f for f in found if f is not None), op)


def _is_one_mask(indices: Sequence[Any] = ()) -> bool:
    return [getattr(i, "dtype", None) for i in indices] == [torch.bool]


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """A result as a graph holds it: complex numbers as pairs, signs in the elements."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg()


@cache
def _draws(target: str) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(_op(target), "tags", ())


@cache
def _leaves_operands(target: str) -> bool:
    """Whether an op neither writes its operands nor gives parts of them: it can read them where
    they are."""
    schema = getattr(_op(target), "_schema", None)
    return schema is not None and all(a.alias_info is None for a in schema.arguments)


def argument_at(args: Sequence[Any], kwargs: dict[str, Any], place: int | str) -> Any:
    """An argument by its number, or by its name."""
    return kwargs[place] if isinstance(place, str) else args[place]


def _filled(given: Any, arrays: Sequence[Any], copied: bool) -> Any:
    if isinstance(given, Hole):
        array = arrays[given.number]
        if given.dtype is None:
            return int(array)
        tensor = _as_tensor(array, copied)
        if given.dtype in COMPLEX_PARTS:
            return as_complex(tensor.to(COMPLEX_PARTS[given.dtype]))
        return tensor.to(given.dtype)
    if isinstance(given, dict):
        return {k: _filled(v, arrays, copied) for k, v in given.items()}
    if isinstance(given, (list, tuple)):
        return type(given)(_filled(g, arrays, copied) for g in given)
    return given


def _as_tensor(array: Any, copied: bool) -> torch.Tensor:
    """An operand for PyTorch; copied where it may write, since the array may be another value's
    memory, and where it takes no such array (read-only, backwards)."""
    if isinstance(array, torch.Tensor):
        return array.clone() if copied else array
    array = np.asarray(array)
    usable = array.flags.writeable and all(s >= 0 for s in array.strides)
    return torch.from_numpy(np.array(array) if copied or not usable else array)


def flat_tensors(out: Any) -> list[torch.Tensor]:
    """The tensors of a result, in order; what is None or a number is left out."""
    if isinstance(out, torch.Tensor):
        return [out]
    if isinstance(out, (list, tuple)):
        return [t for o in out for t in flat_tensors(o)]
    return []


def as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A tensor as opaque nodes give it: complex numbers as pairs, what NumPy has not as
    float32."""
    found = tensor.detach().resolve_conj().resolve_neg()
    if found.dtype in COMPLEX_PARTS:
        found = torch.view_as_real(found)
    if found.dtype in WITHOUT_NUMPY:
        found = found.float()
    return tensor_array(found.contiguous())
