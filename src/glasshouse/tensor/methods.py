"""Which ops a tensor has as methods, and how their arguments are spelled.

Names follow PyTorch where it has one. An axis may be called `dim` or `axis`, and `keepdim` may be
`keepdims`, so that scripts written for either side of that divide run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.expr import Expr
from glasshouse.ops import composite

Axes = int | Sequence[int] | None


def _pick(first: Any, second: Any) -> Any:
    return second if first is None else first


def _axes(dim: Axes, axis: Axes) -> list[int] | None:
    given = _pick(dim, axis)
    if given is None:
        return None
    return [given] if isinstance(given, int) else list(given)


def _sizes(given: tuple[Any, ...]) -> list[Dim]:
    """`x.reshape(2, 3)` and `x.reshape([2, 3])` mean the same."""
    if len(given) == 1 and not isinstance(given[0], (int, SymDim)):
        return list(given[0])
    return list(given)


class Methods(Expr):
    """The ops as methods. Each records a node (or several, in sight) and gives a new tensor."""

    __slots__ = ()

    def __eq__(self, other: object) -> Any:
        return self.apply("equal", other)

    def __ne__(self, other: object) -> Any:
        return self.apply("not_equal", other)

    __hash__ = object.__hash__

    def __rfloordiv__(self, other: Any) -> Any:
        return self._reflected("floor_divide", other)

    def __rmod__(self, other: Any) -> Any:
        return self._reflected("remainder", other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._reflected("matmul", other)

    def __getitem__(self, key: Any) -> Any:
        return composite.getitem(self, key)

    # ---------------------------------------------------------------------------------- elementwise
    def exp(self) -> Any:
        return self.apply("exp")

    def log(self) -> Any:
        return self.apply("log")

    def sqrt(self) -> Any:
        return self.apply("sqrt")

    def rsqrt(self) -> Any:
        return self.apply("rsqrt")

    def sin(self) -> Any:
        return self.apply("sin")

    def cos(self) -> Any:
        return self.apply("cos")

    def tanh(self) -> Any:
        return self.apply("tanh")

    def erf(self) -> Any:
        return self.apply("erf")

    def abs(self) -> Any:
        return self.apply("absolute")

    def sigmoid(self) -> Any:
        return self.apply("sigmoid")

    def relu(self) -> Any:
        return self.apply("relu")

    def pow(self, exponent: Any) -> Any:
        return self.apply("power", exponent)

    def square(self) -> Any:
        return composite.square(self)

    def clip(self, low: float | None = None, high: float | None = None) -> Any:
        return self.apply("clip", low=low, high=high)

    clamp = clip

    def maximum(self, other: Any) -> Any:
        return self.apply("maximum", other)

    def minimum(self, other: Any) -> Any:
        return self.apply("minimum", other)

    def masked_fill(self, mask: Any, value: float) -> Any:
        return composite.masked_fill(self, mask, value)

    # --------------------------------------------------------------------------------- element type
    def astype(self, dtype: object) -> Any:
        return self.cast(dtype)

    def to(self, dtype: object) -> Any:
        return self.cast(dtype)

    def float(self) -> Any:
        return self.cast("float32")

    def half(self) -> Any:
        return self.cast("float16")

    def bfloat16(self) -> Any:
        return self.cast("bfloat16")

    def double(self) -> Any:
        return self.cast("float64")

    def int(self) -> Any:
        return self.cast("int32")

    def long(self) -> Any:
        return self.cast("int64")

    def bool(self) -> Any:
        return self.cast("bool")

    # ----------------------------------------------------------------------------------- reductions
    def _reduced(self, op: str, dim: Axes, axis: Axes, keep: Any, **attrs: Any) -> Any:
        return self.apply(op, axes=_axes(dim, axis), keepdims=keep, **attrs)

    def sum(
        self, dim: Axes = None, keepdim: Any = False, *, axis: Axes = None, keepdims: Any = False
    ) -> Any:
        return self._reduced("sum", dim, axis, keepdim or keepdims)

    def mean(
        self, dim: Axes = None, keepdim: Any = False, *, axis: Axes = None, keepdims: Any = False
    ) -> Any:
        return self._reduced("mean", dim, axis, keepdim or keepdims)

    def prod(
        self, dim: Axes = None, keepdim: Any = False, *, axis: Axes = None, keepdims: Any = False
    ) -> Any:
        return self._reduced("prod", dim, axis, keepdim or keepdims)

    def max(
        self, dim: Axes = None, keepdim: Any = False, *, axis: Axes = None, keepdims: Any = False
    ) -> Any:
        """The greatest elements alone; `argmax` gives their places."""
        return self._reduced("max", dim, axis, keepdim or keepdims)

    def min(
        self, dim: Axes = None, keepdim: Any = False, *, axis: Axes = None, keepdims: Any = False
    ) -> Any:
        """The least elements alone; `argmin` gives their places."""
        return self._reduced("min", dim, axis, keepdim or keepdims)

    def any(
        self, dim: Axes = None, keepdim: Any = False, *, axis: Axes = None, keepdims: Any = False
    ) -> Any:
        return self._reduced("any", dim, axis, keepdim or keepdims)

    def all(
        self, dim: Axes = None, keepdim: Any = False, *, axis: Axes = None, keepdims: Any = False
    ) -> Any:
        return self._reduced("all", dim, axis, keepdim or keepdims)

    def var(
        self, dim: Axes = None, keepdim: Any = False, *, correction: Any = 1, axis: Axes = None,
        keepdims: Any = False,
    ) -> Any:  # fmt: skip
        return self._reduced("variance", dim, axis, keepdim or keepdims, correction=correction)

    def std(
        self, dim: Axes = None, keepdim: Any = False, *, correction: Any = 1, axis: Axes = None,
        keepdims: Any = False,
    ) -> Any:  # fmt: skip
        return self.var(dim, keepdim, correction=correction, axis=axis, keepdims=keepdims).sqrt()

    def argmax(self, dim: Any = None, keepdim: Any = False, *, axis: Any = None) -> Any:
        return self._arg("argmax", _pick(dim, axis), keepdim)

    def argmin(self, dim: Any = None, keepdim: Any = False, *, axis: Any = None) -> Any:
        return self._arg("argmin", _pick(dim, axis), keepdim)

    def _arg(self, op: str, axis: Any, keepdim: Any) -> Any:
        if axis is None:
            return composite.flatten(self).apply(op, axis=0, keepdims=False)
        return self.apply(op, axis=axis, keepdims=keepdim)

    def cumsum(self, dim: Any = None, *, axis: Any = None) -> Any:
        return self.apply("cumsum", axis=_pick(dim, axis))

    def softmax(self, dim: Any = None, *, axis: Any = None) -> Any:
        return self.apply("softmax", axis=_pick(_pick(dim, axis), -1))

    def log_softmax(self, dim: Any = None, *, axis: Any = None) -> Any:
        return self.apply("log_softmax", axis=_pick(_pick(dim, axis), -1))

    def topk(self, k: Any, dim: Any = -1, largest: Any = True) -> Any:
        return self.apply("topk", k=k, axis=dim, largest=largest)

    def sort(self, dim: Any = -1, descending: Any = False) -> Any:
        return self.apply("sort", axis=dim, descending=descending)

    # ------------------------------------------------------------------------------------- products
    def matmul(self, other: Any) -> Any:
        return self.apply("matmul", other)

    # ---------------------------------------------------------------------------------------- shape
    def numel(self) -> Dim:
        return self.value.type.numel

    def size(self, dim: Any = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> Any:
        return self.ndim

    def reshape(self, *shape: Any) -> Any:
        return composite.reshape(self, _sizes(shape))

    view = reshape

    def rearrange(self, plan: Sequence[Sequence[Any]]) -> Any:
        """Axes reordered and merged: output axis i is made of the input axes `plan[i]`."""
        return self.apply("rearrange", plan=plan)

    def permute(self, *axes: Any) -> Any:
        return self.apply("permute", axes=_sizes(axes))

    def transpose(self, *axes: Any) -> Any:
        """Two axes exchanged; with none given, all axes reversed; with a list, as `permute`."""
        if len(axes) == 2:
            return composite.transpose(self, *axes)
        order = _sizes(axes) if axes else list(range(self.ndim))[::-1]
        return self.apply("permute", axes=order)

    @property
    def T(self) -> Any:
        return self.transpose()

    @property
    def mT(self) -> Any:
        return composite.transpose(self, -1, -2)

    def flatten(self, start_dim: Any = 0, end_dim: Any = -1) -> Any:
        return composite.flatten(self, start_dim, end_dim)

    def squeeze(self, dim: Axes = None, *, axis: Axes = None) -> Any:
        return composite.squeeze(self, _axes(dim, axis))

    def unsqueeze(self, dim: Axes = None, *, axis: Axes = None) -> Any:
        axes = _axes(dim, axis)
        if axes is None:
            raise TypeMismatch("unsqueeze needs an axis", self.builder.where())
        return composite.unsqueeze(self, axes)

    def expand(self, *shape: Any) -> Any:
        return composite.broadcast_to(self, _sizes(shape))

    def broadcast_to(self, shape: Sequence[Dim]) -> Any:
        return composite.broadcast_to(self, shape)

    def broadcast(self, shape: Sequence[Dim], dims: Sequence[Any] = ()) -> Any:
        """Repeated to `shape`, with `dims` naming the axes of the output that are new."""
        x = composite.unsqueeze(self, list(dims)) if dims else self
        if len(shape) != x.ndim and dims:
            raise ShapeError(
                f"broadcast({self.type}): {len(dims)} new axes do not make {list(shape)}",
                self.builder.where(),
            )
        return composite.broadcast_to(x, shape)

    def tile(self, *repeats: Any) -> Any:
        return composite.tile(self, _sizes(repeats))

    repeat = tile

    def split(self, size: Any, dim: Any = 0) -> Any:
        """Parts of one size, or of the sizes in a list."""
        if isinstance(size, (list, tuple)):
            return self.apply("split", axis=dim, sizes=size)
        return composite.split_every(self, size, dim)

    def chunk(self, chunks: Any, dim: Any = 0) -> Any:
        return composite.chunk(self, chunks, dim)

    def unbind(self, dim: Any = 0) -> Any:
        return composite.unstack(self, dim)

    def gather(self, dim: Any, index: Any) -> Any:
        return self.apply("gather", index, axis=dim)

    def index_select(self, dim: Any, index: Any) -> Any:
        return self.apply("take", index, axis=dim)

    def flip(self, *dims: Any) -> Any:
        return self.apply("flip", axes=_sizes(dims))

    def tril(self, diagonal: Any = 0) -> Any:
        return composite.tril(self, diagonal)

    def triu(self, diagonal: Any = 0) -> Any:
        return composite.triu(self, diagonal)

    def contiguous(self) -> Any:
        return self
