"""The linear layer, with the specialisations that AITemplate's scripts name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.nn import init
from glasshouse.nn.functional import linear
from glasshouse.nn.module import Module
from glasshouse.nn.parameter import Parameter
from glasshouse.ops.shape import permuted, reshaped

# What follows `x @ weight.T + bias`, given the product and the further operands of the call.
SPECIALIZATIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (1, lambda y, a: y + a),
    "add_add": (2, lambda y, a, b: y + a + b),
    "add_add_relu": (2, lambda y, a, b: (y + a + b).apply("relu")),
    "add_relu": (1, lambda y, a: (y + a).apply("relu")),
    "fast_gelu": (0, lambda y: y.apply("gelu", approximate="tanh")),
    "gelu": (0, lambda y: y.apply("gelu")),
    "hardswish": (0, lambda y: y.apply("hardswish")),
    "mul": (1, lambda y, a: y * a),
    "mul_add": (2, lambda y, a, b: y * a + b),
    "mul_tanh": (1, lambda y, a: (y * a).apply("tanh")),
    "relu": (0, lambda y: y.apply("relu")),
    "sigmoid": (0, lambda y: y.apply("sigmoid")),
    "sigmoid_mul": (1, lambda y, a: y.apply("sigmoid") * a),
    "sigmoid_mul_tanh": (1, lambda y, a: (y.apply("sigmoid") * a).apply("tanh")),
    "softmax": (0, lambda y: y.apply("softmax", axis=-1)),
    "swish": (0, lambda y: y.apply("silu")),
    "tanh": (0, lambda y: y.apply("tanh")),
}


class Linear(Module):
    """`x @ weight.T + bias`, then what `specialization` names.

    "add", "mul" and the like take their further operands in the call: `layer(x, residual)`.
    "permute" splits the output [rows, columns] and reorders it, as `layout` says.
    """

    repeats = True

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        specialization: str | None = None,
        *,
        shape: tuple[int, ...] = (),
        layout: str = "20314",
    ) -> None:
        if specialization not in (None, "permute", *SPECIALIZATIONS):
            known = ", ".join(sorted([*SPECIALIZATIONS, "permute"]))
            raise TypeMismatch(f"Linear has no specialization {specialization!r}; it has {known}")
        self.in_features = in_features
        self.out_features = out_features
        self.specialization = specialization
        self.shape = shape
        self.layout = layout
        sizes = (out_features, in_features)
        self.weight = Parameter(init.linear_weight(sizes))
        self.register_parameter(
            "bias", Parameter(init.linear_bias(out_features, sizes)) if bias else None
        )

    def forward(self, x: Any, *operands: Any) -> Any:
        y = linear(x, self.weight, self.bias)
        if self.specialization == "permute":
            return permute_columns(y, self.shape, self.layout)
        if self.specialization is None:
            count, apply = 0, _plain
        else:
            count, apply = SPECIALIZATIONS[self.specialization]
        if len(operands) != count:
            what = f"Linear({self.specialization}) takes {count} further operands"
            raise TypeMismatch(f"{what}, got {len(operands)}", y.builder.where())
        return apply(y, *operands)

    def extra_repr(self) -> str:
        text = f"in_features={self.in_features}, out_features={self.out_features}"
        text += f", bias={self.bias is not None}"
        return text + (f", specialization={self.specialization!r}" if self.specialization else "")


def _plain(y: Any) -> Any:
    return y


def permute_columns(y: Any, shape: tuple[int, ...], layout: str) -> Any:
    """The output taken as [m, n] and split: "0213" as [m/a, a, b, n/b] with shape (a, b), "20314"
    (or "m2n3") as [m/a, a, b, c, n/b/c] with shape (a, b, c); then permuted in that order."""
    order = "20314" if layout == "m2n3" else layout
    if order not in ("0213", "20314"):
        raise TypeMismatch(f"there is no layout {layout!r}; there are 0213 and 20314 (m2n3)")
    if len(shape) != len(order) - 2:
        raise ShapeError(f"layout {layout} needs {len(order) - 2} sizes, got {list(shape)}")
    columns = y.shape[-1]
    rows = y.type.numel // columns
    rest = columns
    for size in shape[1:]:
        rest = rest // size
    parts = (rows // shape[0], *shape, rest)
    return permuted(reshaped(y, parts), [int(axis) for axis in order])


class Bilinear(Module):
    """`x1 @ weight @ x2 + bias` for each output."""

    repeats = True

    def __init__(self, in1: int, in2: int, out_features: int, bias: bool = True) -> None:
        sizes = (out_features, in1, in2)
        self.weight = Parameter(init.uniform(sizes, in1**-0.5))
        self.register_parameter(
            "bias", Parameter(init.uniform((out_features,), in1**-0.5)) if bias else None
        )

    def forward(self, a: Any, b: Any) -> Any:
        out, in1, in2 = self.weight.shape
        left = (a @ self.weight.permute(1, 0, 2).reshape(in1, out * in2)).reshape(
            (*a.shape[:-1], out, in2)
        )
        y = (left * b.unsqueeze(-2)).sum(-1)
        return y if self.bias is None else y + self.bias


class Identity(Module):
    """Gives back what it gets."""

    def forward(self, x: Any) -> Any:
        return x
