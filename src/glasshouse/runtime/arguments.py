"""Arguments of a compiled module as NumPy arrays: tensors and arrays without copies, plain numbers
and lists converted; anything else is refused by name, with what was given and what is wanted."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ExecutionError, LostGradient
from glasshouse.ir.dtype import DType, float64
from glasshouse.ir.graph import Value
from glasshouse.ir.types import TensorType
from glasshouse.runtime.arrays import Array, array_of

_PLAIN = (bool, int, float, list, tuple)

Inputs = Sequence[Any] | Mapping[str, Any]
"""Arguments in order, or by name."""


def name_of(value: Value, number: int) -> str:
    """What an input is called in messages."""
    return str(value.node.attrs["name"] or f"input {number}")


def ordered(values: Sequence[Value], given: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Positional arguments, then the others by name, in the order of the inputs."""
    names = [name_of(v, i) for i, v in enumerate(values)]
    listed = ", ".join(f"{n}: {v.type}" for n, v in zip(names, values, strict=True)) or "none"
    for name in named:
        if name not in names:
            raise ExecutionError(f"there is no input {name!r}", hint=f"inputs are {listed}")
        if names.index(name) < len(given):
            raise ExecutionError(
                f"{name} is given twice: by position and by name", hint=f"inputs are {listed}"
            )
    missing = [n for n in names[len(given) :] if n not in named]
    if len(given) > len(values) or missing:
        wanted = f"{len(values)} input{'' if len(values) == 1 else 's'}"
        count = len(given) + len(named)
        said = f"{count} {'was' if count == 1 else 'were'} given"
        if missing and count:
            said += f", {', '.join(missing)} missing"
        hint = f"inputs are {listed}"
        if any(isinstance(g, (list, tuple, dict)) for g in given):
            hint += "; what a list, tuple or dict holds is given as arguments of their own"
        raise ExecutionError(f"the module takes {wanted}, {said}", hint=hint)
    return [*given, *(named[n] for n in names[len(given) :])]


def by_order(values: Sequence[Value], given: Inputs) -> Sequence[Any]:
    """Arguments in the order of the inputs."""
    if isinstance(given, Mapping):
        return ordered(values, (), given)
    if not isinstance(given, (list, tuple)):
        raise ExecutionError(f"inputs are a list or a dict by name, got a {type(given).__name__}")
    return given


def as_array(name: str, wanted: TensorType, given: Any) -> Array:
    """An argument's data, of an element type that the module takes; of any shape.

    Complex numbers are taken where the graph has pairs of reals: a last axis of 2.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        return _of_tensor(torch, name, wanted, given)
    if isinstance(given, np.ma.MaskedArray):
        raise _refused(name, wanted, "a masked array, whose mask would be lost", "fill it first")
    if isinstance(given, (str, bytes, dict, set)) or given is None or callable(given):
        raise _refused(name, wanted, _called(given))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what NumPy finds odd is no array of numbers
            array = np.asarray(given)
    except Exception as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise _refused(name, wanted, f"{_called(given)} that is no array ({said[:80]})") from error
    if isinstance(given, _PLAIN) and array.dtype.kind in "biuf":
        # Python's own numbers have no element type: an int is a float where one is wanted.
        carrier = wanted.dtype.carrier
        if array.dtype.kind == carrier.kind or (carrier.kind == "f" and array.dtype.kind in "iu"):
            return array.astype(carrier)
    wide = np.complex128 if wanted.dtype is float64 else np.complex64
    if array.dtype == wide and is_pairs(wanted, array.ndim):
        return array_of(array)
    if not _fits(array.dtype, wanted.dtype):
        kind = str(array.dtype)
        what = f"{kind}{list(array.shape)}"
        if array.dtype.kind not in "biuf":
            what = f"{_called(given)} of {kind}" if not isinstance(given, np.ndarray) else what
        raise _refused(name, wanted, what, _cast_hint(array.dtype, wanted.dtype))
    return array


def require_dense(torch: Any, name: str, wanted: TensorType, given: Any) -> None:
    """It is an error if a tensor has no plain memory of its own."""
    if given.is_nested:
        raise _refused(name, wanted, "a nested tensor", "pad it to one tensor")
    kind = f"{str(given.dtype).removeprefix('torch.')}{list(given.shape)}"
    if given.is_sparse or given.layout is not torch.strided:
        layout = str(given.layout).removeprefix("torch.")
        raise _refused(name, wanted, f"a {layout.strip('_')} {kind}", "give its to_dense()")
    if given.is_quantized:
        raise _refused(name, wanted, f"a quantized {kind}", "give its dequantize()")


def require_taken(torch: Any, name: str, wanted: TensorType, given: Any) -> None:
    """It is an error if a tensor, wherever it is, has no plain elements of a type that is taken."""
    require_dense(torch, name, wanted, given)
    kind = f"{str(given.dtype).removeprefix('torch.')}{list(given.shape)}"
    if given.device.type == "meta" or isinstance(given, torch._subclasses.FakeTensor):
        raise _refused(name, wanted, f"{kind} without data (on meta, or fake)")
    kinds: tuple[Any, ...] = ()
    if wanted.dtype.is_carried:
        kinds = (torch.float64, torch.float32, torch.float16)
    if is_pairs(wanted, given.ndim):
        kinds = (torch.complex128 if wanted.dtype is float64 else torch.complex64,)
    if given.dtype not in (getattr(torch, wanted.dtype.name), *kinds):
        raise _refused(name, wanted, kind, f"give its to(torch.{wanted.dtype.name})")


def _of_tensor(torch: Any, name: str, wanted: TensorType, given: Any) -> Array:
    require_taken(torch, name, wanted, given)
    if given.device.type != "cpu":
        kind = f"{str(given.dtype).removeprefix('torch.')}{list(given.shape)}"
        raise _refused(name, wanted, f"{kind} on {given.device}", "give its cpu()")
    if given.requires_grad and torch.is_grad_enabled():
        warnings.warn(
            f"{name} requires a gradient, and the results of a compiled module carry none: call it "
            'under torch.no_grad(); torch.compile(model, backend="glasshouse") keeps gradients',
            LostGradient,
            stacklevel=2,
        )
    return array_of(given)


def is_pairs(wanted: TensorType, rank: int) -> bool:
    """Whether complex numbers with so many axes are taken as pairs of reals."""
    return wanted.dtype.is_float and wanted.rank == rank + 1 and wanted.shape[-1] == 2


def _fits(have: np.dtype[Any], wanted: DType) -> bool:
    wide = wanted.is_carried and have.kind == "f" and have.itemsize <= 8
    return have == wanted.storage or wide


def _refused(name: str, wanted: TensorType, got: str, hint: str = "") -> ExecutionError:
    return ExecutionError(f"{name} must be {wanted}, got {got}", hint=hint)


def _called(given: Any) -> str:
    if given is None:
        return "None"
    kind = type(given).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def _cast_hint(have: np.dtype[Any], wanted: DType) -> str:
    return f"give its astype('{wanted.carrier}')" if have.kind in "biuf" else ""
