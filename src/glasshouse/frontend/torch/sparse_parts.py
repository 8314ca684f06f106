"""Sparse matrices that a model takes, makes or returns: a graph holds their parts, dense tensors.

While a model is traced, a sparse tensor is an object of its parts that PyTorch's functions accept
in its place. Products are gathers and sums over its elements, ops of the core; what has no formula
here is refused by name. A call takes and gives PyTorch's own sparse tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from glasshouse.errors import CaptureError, TypeMismatch

_NAMES = {
    torch.sparse_coo: ("indices", "values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
}
Context = tuple[torch.layout, tuple[int, ...], bool]


class SparseParts:
    """A sparse tensor as its parts; `is_coalesced` of its elements, as PyTorch knows it."""

    is_sparse = property(lambda self: self.layout is torch.sparse_coo)
    is_sparse_csr = property(lambda self: self.layout is torch.sparse_csr)
    dtype = property(lambda self: self.parts[-1].dtype)
    device = property(lambda self: self.parts[-1].device)
    requires_grad = property(lambda self: self.parts[-1].requires_grad)
    ndim = property(lambda self: len(self.shape))

    def __init__(
        self, layout: torch.layout, shape: Sequence[int], parts: Sequence[Any], coalesced: bool
    ) -> None:
        self.layout, self.shape = layout, torch.Size(shape)
        self.parts, self._coalesced = list(parts), coalesced

    @property
    def context(self) -> Context:
        return self.layout, tuple(self.shape), self._coalesced

    # ------------------------------------------------------------------------ as PyTorch's tensors
    def size(self, axis: int | None = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    def dim(self) -> int:
        return len(self.shape)

    def values(self) -> Any:
        return self.parts[-1]

    def indices(self) -> Any:
        return torch.stack(self.places())

    _values, _indices = values, indices

    def crow_indices(self) -> Any:
        return self._part("crow_indices")

    def col_indices(self) -> Any:
        return self._part("col_indices")

    def is_coalesced(self) -> bool:
        return self._coalesced

    def coalesce(self) -> SparseParts:
        if not self._coalesced:
            raise _refused("coalesce() of a tensor that is not coalesced")
        return self

    def to_dense(self, *_: Any, **__: Any) -> Any:
        zeros = self.parts[-1].new_zeros(self.shape)
        return zeros.index_put(tuple(self.places()), self.parts[-1], accumulate=True)

    def t(self) -> SparseParts:
        rows, columns = self.places()
        parts = [torch.stack([columns, rows]), self.parts[-1]]
        return SparseParts(torch.sparse_coo, self.shape[::-1], parts, False)

    T = property(t)

    def to(self, kind: torch.dtype) -> SparseParts:
        return self._with(self.parts[-1].to(kind))

    def __mul__(self, by: Any) -> SparseParts:
        return self._with(self.parts[-1] * _number(by))

    __rmul__ = __mul__

    def __truediv__(self, by: Any) -> SparseParts:
        return self._with(self.parts[-1] / _number(by))

    def __matmul__(self, x: Any) -> Any:
        return product(self, x)

    def __rmatmul__(self, x: Any) -> Any:
        return _product_behind(x, self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _refused(f"the attribute {name!r}")

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", str(func))
        if isinstance(args[0], cls) and name in ("to_dense", "t", "values", "coalesce"):
            return getattr(args[0], name)(*args[1:])
        if name not in _FUNCTIONS:
            raise _refused(name)
        return _FUNCTIONS[name](*args, **(kwargs or {}))

    # ----------------------------------------------------------------------------------- its parts
    def places(self) -> list[Any]:
        """The index of each element along each sparse axis."""
        if self.layout is torch.sparse_coo:
            return list(self.parts[0].unbind(0))
        begins, others, values = self.parts
        if values.dim() != 1 or begins.dim() != 1:
            raise _refused("a batch of compressed matrices")
        numbers = torch.arange(others.shape[0], dtype=begins.dtype, device=begins.device)
        rows = torch.searchsorted(begins, numbers, right=True) - 1
        return [rows, others] if self.layout is torch.sparse_csr else [others, rows]

    def _part(self, name: str) -> Any:
        if name not in _NAMES[self.layout]:
            raise _refused(f"{name} of a {_called(self.layout)} tensor")
        return self.parts[_NAMES[self.layout].index(name)]

    def _with(self, values: Any) -> SparseParts:
        return SparseParts(self.layout, self.shape, [*self.parts[:-1], values], self._coalesced)


# --------------------------------------------------------------------------------------- functions
def product(matrix: Any, x: Any, reduce: str = "sum") -> Any:
    """`torch.sparse.mm`: the rows that elements name, each with its factor, folded by row."""
    if not isinstance(matrix, SparseParts):
        return _product_behind(matrix, x)
    if isinstance(x, SparseParts) or matrix.ndim != 2 or x.dim() not in (1, 2):
        raise _refused("a product with anything but a dense matrix or vector")
    if x.dim() == 1:
        return product(matrix, x[:, None], reduce)[:, 0]
    rows, columns = matrix.places()
    each = x[columns] * matrix.parts[-1][:, None]
    zeros = each.new_zeros((matrix.shape[0], x.shape[1]))
    if reduce in ("sum", "mean"):
        made = zeros.index_add(0, rows, each)
        if reduce == "sum":
            return made
        ones = torch.ones_like(rows)
        count = torch.zeros_like(made[:, 0], dtype=rows.dtype).index_add(0, rows, ones)
        return made / count.clamp(min=1)[:, None]
    index = rows[:, None].expand(each.shape)
    return zeros.scatter_reduce(0, index, each, reduce, include_self=False)


def _product_behind(x: Any, matrix: SparseParts) -> Any:
    return product(matrix.t(), x.t()).t() if x.dim() == 2 else product(matrix.t(), x)


def sampled_addmm(matrix: Any, a: Any, b: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """A dense product's elements where a sparse matrix has any, added to those."""
    if not isinstance(matrix, SparseParts) or isinstance(a, SparseParts):
        raise _refused("sampled_addmm of other arguments than a sparse and two dense matrices")
    rows, columns = matrix.places()
    dots = (a[rows] * b.t()[columns]).sum(-1)
    return matrix._with(matrix.parts[-1] * beta + dots * alpha)


def addmm(bias: Any, matrix: Any, x: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    return bias * beta + product(matrix, x) * alpha


def to_sparse(x: Any, sparse_dim: int | None = None, *, layout: Any = None, **more: Any) -> Any:
    """The elements of a dense tensor that are not zero, by row."""
    if isinstance(x, SparseParts):
        raise _refused("another layout of a sparse tensor")
    if isinstance(sparse_dim, torch.layout):  # the second argument may be either
        sparse_dim, layout = None, sparse_dim
    layout = torch.sparse_coo if layout is None else layout
    if layout not in _NAMES or any(v is not None for v in more.values()):
        raise _refused(f"to_sparse of the layout {_called(layout)}")
    count = x.dim() if sparse_dim is None else sparse_dim
    if layout is torch.sparse_coo:
        there = x != 0
        indices = (there if count == x.dim() else there.flatten(count).any(-1)).nonzero()
        parts = [indices.t(), x[tuple(indices.unbind(1))] if count else x[None]]
        return SparseParts(layout, x.shape, parts, True)
    if x.dim() != 2:
        raise _refused("a batch of compressed matrices")
    by_rows = x if layout is torch.sparse_csr else x.t()
    rows, others = (by_rows != 0).nonzero().unbind(1)
    ends = torch.arange(by_rows.shape[0] + 1, device=x.device)
    parts = [torch.searchsorted(rows, ends), others, by_rows[rows, others]]
    return SparseParts(layout, x.shape, parts, True)


def to_csr(x: Any, **more: Any) -> Any:
    return to_sparse(x, layout=torch.sparse_csr, **more)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("_sparse_mm", "_spmm", "mm", "mv", "matmul", "__matmul__", "spmm"), product),
    "__rmatmul__": lambda matrix, x: _product_behind(x, matrix),
    "addmm": addmm,
    "sparse_sampled_addmm": sampled_addmm,
}
MAKERS: Mapping[Any, Callable[..., Any]] = {
    torch.Tensor.to_sparse: to_sparse,
    torch.Tensor.to_sparse_coo: to_sparse,
    torch.Tensor.to_sparse_csr: to_csr,
}
"""Functions of dense tensors that make sparse ones."""


# ------------------------------------------------------------------------------------ the boundary
def taken_apart(tree: Any) -> Any:
    """The same arguments with sparse tensors as their parts."""
    leaves, form = pytree.tree_flatten(tree)
    if not any(_is_sparse(x) for x in leaves):
        return tree
    return pytree.tree_unflatten([_copied(x) if _is_sparse(x) else x for x in leaves], form)


def _copied(given: torch.Tensor) -> SparseParts:
    parts = parts_of(given)  # values of CSR are a view of it, which PyTorch's tracer looks for
    return parts._with(parts.parts[-1].clone())


def parts_of(given: torch.Tensor) -> SparseParts:
    layout = given.layout
    if layout not in _NAMES:
        raise CaptureError(
            f"an argument is a {_called(layout)} tensor of shape {list(given.shape)}",
            hint="give its to_dense(), or a COO or CSR tensor",
        )
    given = given.detach()
    if layout is torch.sparse_coo:
        parts = [given._indices(), given._values()]
        return SparseParts(layout, given.shape, parts, given.is_coalesced())
    return SparseParts(layout, given.shape, [getattr(given, n)() for n in _NAMES[layout]], True)


def whole(parts: Sequence[Any], context: Context) -> torch.Tensor:
    """PyTorch's sparse tensor of its parts."""
    layout, shape, coalesced = context
    if layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(
            *parts, shape, is_coalesced=coalesced, check_invariants=False
        )
    return torch.sparse_compressed_tensor(*parts, shape, layout=layout, check_invariants=False)


def names_of(context: Context) -> tuple[str, ...]:
    return _NAMES[context[0]]


def kind_of(context: Context) -> str:
    return f"{_called(context[0])} tensor"


def taken(given: Any, context: Context) -> Sequence[Any] | None:
    """The parts of an argument of a call; None of what is no sparse tensor."""
    if not _is_sparse(given):
        return None
    if given.layout is not context[0] or tuple(given.shape) != context[1]:
        raise TypeMismatch(
            f"a sparse argument must be a {_called(context[0])} tensor of shape "
            f"{list(context[1])}, got a {_called(given.layout)} one of {list(given.shape)}",
            hint="compile the model again for the other one",
        )
    return parts_of(given).parts


def _is_sparse(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.layout is not torch.strided and not x.is_nested


def _called(layout: Any) -> str:
    return str(layout).removeprefix("torch.").strip("_")


def _number(by: Any) -> Any:
    if isinstance(by, (int, float)) or (isinstance(by, torch.Tensor) and by.dim() == 0):
        return by
    raise _refused("a product of elements with anything but a number")


def _refused(what: str) -> CaptureError:
    return CaptureError(
        f"a sparse tensor in the model: {what} is not compiled",
        hint="give the model its to_dense(), or call to_dense() before that",
    )


pytree.register_pytree_node(
    SparseParts,
    lambda given: (given.parts, given.context),
    lambda parts, context: SparseParts(context[0], context[1], list(parts), context[2]),
    flatten_with_keys_fn=lambda given: (
        [
            (pytree.GetAttrKey(n), p)
            for n, p in zip(names_of(given.context), given.parts, strict=True)
        ],
        given.context,
    ),
    serialized_type_name="glasshouse.SparseParts",
)
