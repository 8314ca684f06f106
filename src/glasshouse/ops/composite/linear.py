"""How products with weights and biases are spelled with matmul, conv and add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ops.shape import reshaped

Ints = int | Sequence[int]


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """`x @ weight.T + bias`, the weight as [out, in]."""
    y = x.apply("matmul", weight, transpose_y=True)
    return y if bias is None else y + bias


def addmm(c: Any, a: Any, b: Any, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """`beta * c + alpha * (a @ b)`."""
    product = a @ b
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return product + (c if beta == 1 else c * beta)


def outer(x: Any, y: Any) -> Any:
    """Every element of x times every element of y."""
    return reshaped(x, (x.type.numel, 1)) * reshaped(y, (1, y.type.numel))


def dot(x: Any, y: Any) -> Any:
    """The inner product of two vectors."""
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(
            f"dot({x.type}, {y.type}): both must have one dimension", x.builder.where()
        )
    return x @ y


def _spatial(x: Any, weight: Any, rank: int | None) -> int:
    found: int = weight.ndim - 2
    if found < 1 or (rank is not None and found != rank):
        wanted = f"{rank} spatial axes" if rank else "at least one spatial axis"
        raise ShapeError(
            f"conv({x.type}, {weight.type}): the weight needs {wanted}", x.builder.where()
        )
    return found


def _spread(given: Ints, rank: int) -> list[int]:
    listed = list(given) if isinstance(given, Sequence) else [int(given)]
    return listed * rank if len(listed) == 1 else listed


def _with_bias(y: Any, bias: Any, rank: int) -> Any:
    return y if bias is None else y + reshaped(bias, (*bias.shape, *[1] * rank))


def conv(
    x: Any, weight: Any, bias: Any = None, stride: Ints = 1, padding: Ints | str = 0,
    dilation: Ints = 1, groups: int = 1, *, rank: int | None = None,
) -> Any:  # fmt: skip
    """A convolution and its bias. An input without its batch axis is taken as a batch of one.

    `padding` may be "valid" (none) or "same" (output sizes as input sizes, stride 1).
    """
    spatial = _spatial(x, weight, rank)
    dilations = _spread(dilation, spatial)
    pads = _padding(x, weight, padding, dilations, _spread(stride, spatial))
    alone = x.ndim == spatial + 1
    batch = reshaped(x, (1, *x.shape)) if alone else x
    y = batch.apply(
        "conv", weight, stride=_spread(stride, spatial), padding=pads, dilation=dilations,
        groups=groups,
    )  # fmt: skip
    y = _with_bias(y, bias, spatial)
    return reshaped(y, y.shape[1:]) if alone else y


def _padding(
    x: Any, weight: Any, padding: Ints | str, dilation: list[int], stride: list[int]
) -> list[int]:
    if not isinstance(padding, str):
        return _spread(padding, weight.ndim - 2)
    if padding == "valid":
        return [0] * (weight.ndim - 2)
    if padding != "same" or any(s != 1 for s in stride):
        raise TypeMismatch(
            f"conv: padding {padding!r} with stride {stride}",
            x.builder.where(),
            'a padding is numbers, "valid", or with stride 1 "same"',
        )
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    return [t // 2 for t in totals] + [t - t // 2 for t in totals]


def conv1d(x: Any, weight: Any, bias: Any = None, **attrs: Any) -> Any:
    return conv(x, weight, bias, rank=1, **attrs)


def conv2d(x: Any, weight: Any, bias: Any = None, **attrs: Any) -> Any:
    return conv(x, weight, bias, rank=2, **attrs)


def conv3d(x: Any, weight: Any, bias: Any = None, **attrs: Any) -> Any:
    return conv(x, weight, bias, rank=3, **attrs)


def conv_transpose(
    x: Any, weight: Any, bias: Any = None, stride: Ints = 1, padding: Ints = 0,
    output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1, *, rank: int | None = None,
) -> Any:  # fmt: skip
    """A transposed convolution and its bias; the weight as [in, out / groups, spatial...]."""
    spatial = _spatial(x, weight, rank)
    alone = x.ndim == spatial + 1
    batch = reshaped(x, (1, *x.shape)) if alone else x
    y = batch.apply(
        "conv_transpose", weight, stride=_spread(stride, spatial),
        padding=_spread(padding, spatial), output_padding=_spread(output_padding, spatial),
        dilation=_spread(dilation, spatial), groups=groups,
    )  # fmt: skip
    y = _with_bias(y, bias, spatial)
    return reshaped(y, y.shape[1:]) if alone else y


def conv_transpose1d(x: Any, weight: Any, bias: Any = None, **attrs: Any) -> Any:
    return conv_transpose(x, weight, bias, rank=1, **attrs)


def conv_transpose2d(x: Any, weight: Any, bias: Any = None, **attrs: Any) -> Any:
    return conv_transpose(x, weight, bias, rank=2, **attrs)


def conv_transpose3d(x: Any, weight: Any, bias: Any = None, **attrs: Any) -> Any:
    return conv_transpose(x, weight, bias, rank=3, **attrs)
