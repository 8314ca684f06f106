"""What a user computes with: a tensor that records what is asked of it and runs it late.

A `Tensor` is a handle to a pending value. `numpy()`, `item()`, `sync()` and the like run what it
needs; from then on it is a leaf that holds its data. What a tensor held before is not changed by
computing with it: `assign` and the optimisers give the handle another value.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from weakref import ref

import numpy as np

from glasshouse.errors import CaptureError, GradientError, ShapeError, TypeMismatch
from glasshouse.ir.dtype import to_storage
from glasshouse.ir.graph import Value
from glasshouse.ops import composite
from glasshouse.tensor.builder import LAZY, wrap_with
from glasshouse.tensor.late import LateBackward, resolved, settle
from glasshouse.tensor.live import add_live
from glasshouse.tensor.methods import Methods
from glasshouse.tensor.pending import Array, LazyNode, LazyValue, alias_node, result_of
from glasshouse.tensor.place import current_origin
from glasshouse.tensor.state import STATE


class Tensor(Methods):
    """A lazy tensor."""

    __slots__ = ("__weakref__", "_grad", "name")
    value: LazyValue

    def __init__(self, value: Value, name: str = "") -> None:
        if not isinstance(value, LazyValue):
            raise TypeMismatch(
                f"a Tensor cannot be made from {type(value).__name__}",
                hint="gh.array(data) makes one from numbers and arrays",
            )
        self.value = value
        self.builder = LAZY
        self.name = name
        self._grad: Tensor | LateBackward | None = None
        if value.node.results is None:
            add_live(self)

    @classmethod
    def of(cls, value: LazyValue) -> Tensor:
        """`Tensor(value)` for who knows that it is one, without asking."""
        made = cls.__new__(cls)
        made.value = value
        made.builder = LAZY
        made.name = ""
        made._grad = None
        if value.node.results is None:
            add_live(made)
        return made

    # ---------------------------------------------------------------------------------- reading
    def numpy(self) -> Array:
        """The data as a NumPy array, read-only and without a copy; runs what is pending for it.

        bfloat16, which NumPy lacks, comes as float32.
        """
        view = self._data().view()
        view.flags.writeable = False
        return view

    def sync(self) -> Tensor:
        """Run what is pending for this tensor."""
        self._data()
        return self

    def item(self) -> Any:
        """The one element as a Python number."""
        data = self._data()
        if data.size != 1:
            raise ShapeError(f"item() needs one element, {self.type} has {data.size}", LAZY.where())
        return data.reshape(-1)[0].item()

    def tolist(self) -> Any:
        return self._data().tolist()

    @property
    def is_pending(self) -> bool:
        """Whether the data has yet to be computed."""
        return result_of(self.value) is None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy:
            return np.array(self._data(), dtype)
        return np.asarray(self.numpy(), dtype)

    # NumPy must leave `array + tensor` to the tensor.
    __array_ufunc__ = None

    def __dlpack__(self, **options: Any) -> Any:
        return to_storage(self._data(), self.dtype).__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return (1, 0)  # the CPU

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.dtype.is_float:
            raise TypeMismatch(f"{self.type} cannot be an index", LAZY.where())
        return int(self.item())

    def __len__(self) -> int:
        if not self.shape or not isinstance(self.shape[0], int):
            raise ShapeError(f"{self.type} has no length", LAZY.where())
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind(0))

    def __repr__(self) -> str:
        """Without running anything: a debugger may ask at any time."""
        data = result_of(self.value)
        if data is None:
            return f"{type(self).__name__}({self.type}, pending)"
        return f"{type(self).__name__}({self.type},\n{np.array2string(data, separator=', ')})"

    def __str__(self) -> str:
        with suppress(CaptureError):  # a traced tensor has no data; its type is all there is
            self._data()
        return repr(self)

    def __reduce__(self) -> Any:
        data = np.array(self._data())
        return _restored, (data, self.dtype.name, self.requires_grad, self.name)

    def _data(self) -> Array:
        data = result_of(self.value)
        if data is None:
            from glasshouse.tensor.execute import run_pending  # it needs the tensors that live

            run_pending([self.value])
            data = result_of(self.value)
            assert data is not None
        return data

    # --------------------------------------------------------------------------------- gradients
    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows to or through this tensor."""
        return self.value.node.needs_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, wanted: bool = True) -> Tensor:
        """Make this tensor a leaf that collects gradients in `.grad` (or no longer does)."""
        node = self.value.node
        if wanted and not self.dtype.is_float:
            raise GradientError(f"only floats have gradients, not {self.type}", LAZY.where())
        if node.needs_grad and node.owner is None:
            raise GradientError(
                "this tensor is computed from others that need gradients",
                LAZY.where(),
                "detach() gives one that is not",
            )
        if wanted != node.needs_grad:
            self._become(self.value, wanted)
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` collected here."""
        settle()
        return resolved(self)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        settle()
        if STATE.own.capture is not None:
            STATE.own.capture.remember(self)
        self._grad = value

    def detach(self) -> Tensor:
        """The same data; gradients stop here."""
        return Tensor(self._alias(self.value, False).outputs[0])

    def backward(self, gradient: Any = None, *, retain_graph: bool = False) -> None:
        """Add the gradient of this scalar to `.grad` of every leaf that needs one."""
        from glasshouse.tensor.grad import backward  # it computes with tensors

        backward(self, gradient, retain_graph)

    # ------------------------------------------------------------------------------------ writing
    def assign(self, new: Any) -> Tensor:
        """Let this tensor hold another value of the same type from now on."""
        if not isinstance(new, Tensor):
            new = Tensor(LAZY.value_of(new, self.dtype))
        if new.type != self.type:
            raise ShapeError(f"a tensor of {self.type} cannot hold {new.type}", LAZY.where())
        self._become(new.value, self.value.node.owner is not None)
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        """Let this tensor hold what it held, with a part replaced; gradients flow through both."""
        if self.value.node.owner is not None and STATE.own.gradients:
            raise GradientError(
                "a leaf that needs a gradient cannot be written to",
                LAZY.where(),
                "write inside no_grad(), or to something computed from it",
            )
        if self.value.node.owner is not None:
            self.assign(composite.setitem(self, key, value))
            return
        if STATE.own.capture is not None:
            STATE.own.capture.remember(self)
        self.value = composite.setitem(self, key, value).value
        add_live(self)

    def _become(self, value: LazyValue, needs_grad: bool) -> None:
        if STATE.own.capture is not None:
            STATE.own.capture.remember(self)
        node = self._alias(value, needs_grad)
        if needs_grad:
            node.owner = ref(self)
        self.value = LazyValue(node, 0, value.type)
        if node.results is None:
            add_live(self)

    @staticmethod
    def _alias(value: LazyValue, needs_grad: bool) -> LazyNode:
        node = alias_node(value, current_origin(sys._getframe(2)))
        node.needs_grad = needs_grad
        return node


def _restored(data: Array, dtype: str, needs_grad: bool, name: str) -> Tensor:
    from glasshouse.tensor.create import array

    out = array(data, dtype)
    out.name = name
    return out.requires_grad_() if needs_grad else out


wrap_with(Tensor)
