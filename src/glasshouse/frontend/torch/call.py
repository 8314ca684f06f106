"""What is known of one call of a PyTorch op: arguments, what it writes, what it gives."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from glasshouse.frontend.torch.dtypes import dtype_of

Env = dict[fx.Node, Any]

# Ops that autocast runs in half precision: their operands are cast, not their result.
_CONTRACTIONS = {
    f"aten::{name}"
    for name in (
        "linear", "matmul", "mm", "bmm", "mv", "addmm", "baddbmm", "addmv", "conv1d", "conv2d",
        "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
        "einsum", "scaled_dot_product_attention",
    )
}  # fmt: skip


@dataclass
class AtenCall:
    """One op of the captured program, with handles in the place of its tensors."""

    node: fx.Node
    target: Any
    args: list[Any]
    kwargs: dict[str, Any]
    env: Env
    written: list[int]  # numbers of the arguments, in the schema, that it writes to
    any_dtype: bool = False  # whether results may differ from PyTorch's in their element type

    def with_argument(self, number: int, value: Any) -> AtenCall:
        args = [*self.args[:number], value, *self.args[number + 1 :]]
        other = value.dtype is not self.args[number].dtype
        return replace(self, args=args, any_dtype=other)

    def written_names(self) -> list[str]:
        return [self.target._schema.arguments[i].name for i in self.written]

    def written_slots(self) -> list[Any]:
        found = []
        for number, name in zip(self.written, self.written_names(), strict=True):
            args = self.node.args
            given = args[number] if number < len(args) else self.node.kwargs.get(name)
            found.append(self.env.get(given) if isinstance(given, fx.Node) else None)
        return found

    def declared(self) -> Any:
        """The types of what the op gives; None for results that nothing reads."""
        val = self.node.meta.get("val")
        if not isinstance(val, (list, tuple)):
            return val
        users = [u for u in self.node.users if u.target is operator.getitem]
        read = (
            {u.args[1] for u in users if u.users}
            if len(users) == len(self.node.users)
            else set(range(len(val)))
        )
        if self.target is torch.ops.aten.lstm.input:
            # Up to PyTorch 2.11, the last states on a GPU are said to have an axis that they lack.
            val = [v.squeeze(1) if v.ndim == 4 else v for v in val]
        return [v if i in read else None for i, v in enumerate(val)]

    def under_autocast(self) -> AtenCall:
        """This call with its operands in half precision, where autocast ran it so."""
        val = self.node.meta.get("val")
        if self.target._schema.name not in _CONTRACTIONS or not isinstance(val, torch.Tensor):
            return self
        if val.dtype not in (torch.float16, torch.bfloat16):
            return self
        kind = dtype_of(val.dtype)

        def cast(given: Any) -> Any:
            if isinstance(given, (list, tuple)):
                return [cast(g) for g in given]
            return given.cast(kind) if hasattr(given, "builder") and given.dtype.is_float else given

        return replace(self, args=[cast(a) for a in self.args])


def written_arguments(schema: Any) -> list[int]:
    """Numbers of the arguments that an op writes to: `Tensor(a!)`."""
    return [i for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write]
