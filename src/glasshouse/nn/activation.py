"""The activations as layers."""

from __future__ import annotations

from typing import Any, ClassVar

from glasshouse.nn import functional as F
from glasshouse.nn.module import Module


class _Plain(Module):
    """A layer without parameters; `inplace` is accepted and means nothing here."""

    repeats = True

    function: ClassVar[Any]

    def __init__(self, inplace: bool = False) -> None:
        pass

    def forward(self, x: Any) -> Any:
        return type(self).function(x)


class ReLU(_Plain):
    """max(x, 0)."""

    function = staticmethod(F.relu)


class ReLU6(_Plain):
    """min(max(x, 0), 6)."""

    function = staticmethod(F.relu6)


class SiLU(_Plain):
    """x * sigmoid(x)."""

    function = staticmethod(F.silu)


class Sigmoid(_Plain):
    """1 / (1 + exp(-x))."""

    function = staticmethod(F.sigmoid)


class Tanh(_Plain):
    """The hyperbolic tangent."""

    function = staticmethod(F.tanh)


class Hardswish(_Plain):
    """x * relu6(x + 3) / 6."""

    function = staticmethod(F.hardswish)


class Hardsigmoid(_Plain):
    """relu6(x + 3) / 6."""

    function = staticmethod(F.hardsigmoid)


class Mish(_Plain):
    """x * tanh(softplus(x))."""

    function = staticmethod(F.mish)


class SELU(_Plain):
    """Scaled exponential linear unit."""

    function = staticmethod(F.selu)


class Softsign(_Plain):
    """x / (1 + |x|)."""

    function = staticmethod(F.softsign)


class LogSigmoid(_Plain):
    """log(sigmoid(x))."""

    function = staticmethod(F.log_sigmoid)


class LeakyReLU(Module):
    """x where it is positive, a small share of it elsewhere."""

    repeats = True

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Any:
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""

    repeats = True

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha

    def forward(self, x: Any) -> Any:
        return F.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class GELU(Module):
    """x times the normal distribution function, exact or by tanh."""

    repeats = True

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        return F.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta."""

    repeats = True

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold

    def forward(self, x: Any) -> Any:
        return F.softplus(x, self.beta, self.threshold)


class Softmax(Module):
    """Positive numbers that sum to 1 along an axis."""

    repeats = True

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Any:
        return F.softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of `Softmax`."""

    repeats = True

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Any:
        return F.log_softmax(x, self.dim)


class Dropout(Module):
    """In training, each element is 0 with probability p and the others are scaled up."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        self.p = p

    def forward(self, x: Any) -> Any:
        return F.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Flatten(Module):
    """Axes merged into one."""

    repeats = True

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Any) -> Any:
        return x.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
