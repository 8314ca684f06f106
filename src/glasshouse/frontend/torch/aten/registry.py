"""How an ATen op finds its spelling with core ops: one table, filled by the files here.

A spelling is a function of the op's arguments in the order of its schema, with handles in the
place of tensors, sizes (`Dim`) in the place of SymInts and `DType` in the place of `torch.dtype`.
It gives a handle, or a tuple of them. What it cannot say it refuses with an error of
`glasshouse.errors`, and the op becomes an opaque node.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.frontend.torch.dtypes import default_float, is_integral, result_dtype
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.dtype import DType, float16, float32
from glasshouse.ir.op import REGISTRY

Spelling = Callable[..., Any]

TABLE: dict[str, Spelling] = {}
"""ATen name, with overload ("aten::div.Tensor_mode") or without ("aten::div") -> spelling."""

OF_COMPLEX: dict[str, Spelling] = {}
"""The same, looked up first where an operand is complex."""

IN_CONTEXT: set[Spelling] = set()
"""Spellings that take the `Context` as their first argument."""


BY_STEPS: dict[Spelling, int] = {}
"""Spellings of factorisations and solvers; and up to how many rows they are taken where a gradient
is asked for: beyond, it is PyTorch's own, by the factors that LAPACK gives."""


class Context:
    """What a spelling may need besides its arguments."""

    def __init__(
        self,
        builder: GraphBuilder,
        write: Callable[[int, Any], None],
        fx_node: Any,
        stopped: Callable[[Any], Any] | None = None,
    ) -> None:
        self.builder = builder
        self.write = write  # (number of an argument, the new value of that tensor)
        self.fx_node = fx_node
        self.stopped = stopped  # the same value without a gradient; None where none is taken

    def make(self, op: str, **attrs: Any) -> Any:
        """An op without operands."""
        return self.builder.apply(op, **attrs)

    def full(self, shape: Any, value: Any, dtype: DType) -> Any:
        return self.make("full", shape=tuple(shape), value=value, dtype=dtype)

    def constant(self, data: Any, dtype: DType | None = None) -> Any:
        return self.builder.wrap(self.builder.constant(data, dtype))


def aten(*names: str, context: bool = False, steps: int = 0) -> Callable[[Spelling], Spelling]:
    """Register a spelling: `@aten("div.Tensor", "div.Scalar")`; a name without overload is for all
    overloads that have no entry of their own. `steps`: the rows of `BY_STEPS`."""

    def register(spelling: Spelling) -> Spelling:
        for name in names:
            key = name if "::" in name else f"aten::{name}"
            assert key not in TABLE, key
            TABLE[key] = spelling
        if context:
            IN_CONTEXT.add(spelling)
        if steps:
            BY_STEPS[spelling] = steps
        return spelling

    return register


def complex_aten(*names: str) -> Callable[[Spelling], Spelling]:
    """Register a spelling for complex operands."""

    def register(spelling: Spelling) -> Spelling:
        for name in names:
            assert f"aten::{name}" not in OF_COMPLEX, name
            OF_COMPLEX[f"aten::{name}"] = spelling
        return spelling

    return register


def complex_math(*names: str) -> Callable[[Spelling], Spelling]:
    """The same for one that computes."""

    def register(spelling: Spelling) -> Spelling:
        complex_aten(*names)(in_float32(spelling))
        return spelling

    return register


def in_float32(spelling: Spelling) -> Spelling:
    """A spelling whose half floats are computed in float32 and rounded once, as PyTorch does. In
    their own range squares of what they hold overflow or vanish."""
    return partial(_computed_in_float32, spelling)


def _computed_in_float32(spelling: Spelling, *args: Any, **options: Any) -> Any:
    given = [a for a in (*args, *options.values()) if isinstance(a, Complex) or is_handle(a)]
    types = {a.dtype for a in given if not is_integral(a.dtype)}
    if types != {float16}:
        return spelling(*args, **options)
    made = spelling(
        *(_with_floats(float16, float32, a) for a in args),
        **{name: _with_floats(float16, float32, a) for name, a in options.items()},
    )
    if isinstance(made, tuple):
        return tuple(_with_floats(float32, float16, m) for m in made)
    return _with_floats(float32, float16, made)


def _with_floats(before: DType, after: DType, x: Any) -> Any:
    """What has elements of one type, or pairs of them, with another; all else as it is."""
    if isinstance(x, Complex) and x.dtype is before:
        if not x.is_apart:
            return Complex(x.pairs.cast(after))
        return joined(*(part.cast(after) for part in x.parts()))
    return x.cast(after) if is_handle(x) and x.dtype is before else x


def find(name: str, overload: str, operands: Any = ()) -> Spelling | None:
    """The spelling of an op, by its schema's name ("aten::add") and overload ("Tensor")."""
    if name in OF_COMPLEX and any(isinstance(a, (Complex, complex)) for a in operands):
        return OF_COMPLEX[name]
    return TABLE.get(f"{name}.{overload or 'default'}") or TABLE.get(name)


def core(name: str, **attrs: Any) -> Spelling:
    """A spelling that is one core op of the first operand."""
    op = REGISTRY[name]
    return lambda x, *_, **__: op(x, **attrs)


# ---------------------------------------------------------------------------------------- operands
def is_handle(arg: Any) -> bool:
    return hasattr(arg, "builder")


def common(*args: Any, to_float: bool = False, dtype: DType | None = None) -> tuple[Any, ...]:
    """Operands brought to PyTorch's common type, or to `dtype`; Python numbers stay numbers."""
    target = dtype or result_dtype(args)
    if to_float and is_integral(target):
        target = default_float()
    near = next(a for a in args if is_handle(a))
    return tuple([_as(near, a, target) for a in args])


def _as(near: Any, arg: Any, dtype: DType) -> Any:
    if is_handle(arg):
        return arg.cast(dtype)
    if isinstance(arg, SymDim):
        return scalar(near, arg, dtype)
    if isinstance(arg, (bool, int, float)):
        return number(arg, dtype)
    return arg


def number(value: bool | int | float, dtype: DType) -> Any:
    """A Python number in the category of a type, so that it does not raise that type."""
    if dtype.is_float:
        return float(value)
    return bool(value) if dtype.bits == 1 else int(value)


def scalar(near: Any, value: Any, dtype: DType) -> Any:
    """A number or size as a tensor without axes, in the graph of `near`."""
    if is_handle(value):
        return value.cast(dtype)
    node = REGISTRY["full"].emit(near.builder, [], {"shape": (), "value": value, "dtype": dtype})
    return near.builder.wrap(node.output)


def apply(op: str, *args: Any, **attrs: Any) -> Any:
    """A core op whose first operand may be a number."""
    near = next(a for a in args if is_handle(a))
    node = REGISTRY[op].emit(near.builder, list(args), attrs)
    return near.builder.wrap(node.output)


def listed(given: Any, count: int) -> list[Any]:
    """One entry for each of `count` axes, from a number or a list that may hold just one."""
    many = list(given) if isinstance(given, (list, tuple)) else [given]
    return many * count if len(many) == 1 else many


def axes_or_none(dim: Any) -> list[int] | None:
    """A list of axes; None (and PyTorch's empty list) for all."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    return list(dim) if isinstance(dim, (list, tuple)) else [dim]


def is_static(*dims: Dim) -> bool:
    return not any(isinstance(d, SymDim) for d in dims)
