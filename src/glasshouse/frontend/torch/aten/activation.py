"""How ATen's activations are spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.torch.aten.registry import apply, aten
from glasshouse.ir.dtype import float32
from glasshouse.ops import composite

aten("relu")(lambda x: x.apply("relu"))
aten("relu6")(composite.relu6)
aten("gelu")(lambda x, approximate="none": x.apply("gelu", approximate=approximate))
aten("silu")(lambda x: x.apply("silu"))
aten("hardswish")(lambda x: x.apply("hardswish"))
aten("hardsigmoid")(lambda x: x.apply("hardsigmoid"))
aten("mish")(composite.mish)
aten("selu")(composite.selu)
aten("celu")(lambda x, alpha=1.0: composite.celu(x, float(alpha)))
aten("softsign")(composite.softsign)
aten("tanhshrink")(composite.tanhshrink)
aten("log_sigmoid")(composite.log_sigmoid)
aten("glu")(lambda x, dim=-1: composite.glu(x, dim))
aten("prelu", "_prelu_kernel")(composite.prelu)
aten("leaky_relu")(lambda x, slope=0.01: x.apply("leaky_relu", slope=float(slope)))
aten("softplus")(
    lambda x, beta=1, threshold=20: x.apply(
        "softplus", beta=float(beta), threshold=float(threshold)
    )
)
aten("hardtanh")(lambda x, low=-1, high=1: composite.hardtanh(x, low, high))
aten("hardshrink")(lambda x, lambd=0.5: composite.hardshrink(x, float(lambd)))
aten("softshrink")(lambda x, lambd=0.5: composite.softshrink(x, float(lambd)))
aten("threshold")(lambda x, limit, value: apply("where", x <= limit, value, x))


@aten("elu")
def elu(x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    inner = x if input_scale == 1 else x * float(input_scale)
    # Above zero the input passes unscaled by `input_scale`.
    low = inner.apply("elu", alpha=float(alpha))
    out = low if input_scale == 1 else apply("where", x > 0, x, low)
    return out if scale == 1 else out * float(scale)


@aten("log_sigmoid_forward")
def log_sigmoid_forward(x: Any) -> Any:
    """The second result is what PyTorch's gradient reads, where a backward graph is left to it."""
    return composite.log_sigmoid(x), (-x.apply("absolute")).apply("exp")


@aten("log_sigmoid_backward")
def log_sigmoid_backward(g: Any, x: Any, buffer: Any) -> Any:
    return g * (-x).apply("sigmoid")


@aten("rrelu")
def rrelu(
    x: Any,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    from glasshouse.errors import Unsupported

    if training:
        raise Unsupported("rrelu draws a slope for each element in training")
    return x.apply("leaky_relu", slope=(float(lower) + float(upper)) / 2)


def _soft(op: str) -> Any:
    def spelling(x: Any, dim: int, dtype: Any = None) -> Any:
        if isinstance(dtype, bool):  # _softmax(x, dim, half_to_float)
            dtype = float32 if dtype else None
        return (x if dtype is None else x.cast(dtype)).apply(op, axis=dim)

    return spelling


aten("softmax", "_softmax", "special_softmax")(_soft("softmax"))
aten("log_softmax", "_log_softmax", "special_log_softmax")(_soft("log_softmax"))


@aten("_safe_softmax")
def safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """Rows of -inf alone give zeros."""
    x = x if dtype is None else x.cast(dtype)
    some = (x > float("-inf")).apply("any", axes=[dim], keepdims=True)
    return apply("where", some, apply("where", some, x, 0.0).apply("softmax", axis=dim), 0.0)
