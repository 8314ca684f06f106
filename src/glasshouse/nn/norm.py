"""The normalising layers and how running statistics are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from glasshouse.errors import ShapeError
from glasshouse.nn import init
from glasshouse.nn.functional import group_norm, layer_norm, rms_norm
from glasshouse.nn.module import Module
from glasshouse.nn.parameter import Parameter
from glasshouse.ops.shape import reshaped
from glasshouse.tensor.calls import recorded
from glasshouse.tensor.create import array, full
from glasshouse.tensor.state import no_grad


class LayerNorm(Module):
    """Normalises the last axes of each sample."""

    repeats = True

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(shape)
        self.eps = eps
        affine = elementwise_affine
        self.register_parameter("weight", Parameter(init.ones(shape)) if affine else None)
        self.register_parameter("bias", Parameter(init.zeros(shape)) if affine and bias else None)

    def forward(self, x: Any) -> Any:
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """Divides the last axes of each sample by their root mean square."""

    repeats = True

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-6) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(shape)
        self.eps = eps
        self.weight = Parameter(init.ones(shape))

    def forward(self, x: Any) -> Any:
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Normalises each group of channels of each sample."""

    repeats = True

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True
    ) -> None:
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        shape = (num_channels,)
        self.register_parameter("weight", Parameter(init.ones(shape)) if affine else None)
        self.register_parameter("bias", Parameter(init.zeros(shape)) if affine else None)

    def forward(self, x: Any) -> Any:
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _Norm(Module):
    """What batch and instance normalisation share: channels at axis 1, a fixed number of axes."""

    ranks: ClassVar[tuple[int, ...]]

    def _check(self, x: Any) -> None:
        if x.ndim not in self.ranks:
            wanted = " or ".join(map(str, self.ranks))
            what = f"{type(self).__name__} takes {wanted} dimensions, not {x.type}"
            raise ShapeError(what, x.builder.where())

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}"


@recorded
def _averaged(kept: Any, new: Any, scale: Any, share: Any) -> Any:
    """A running statistic that takes a share of a batch's, which is scaled before."""
    scaled = new if isinstance(scale, float) and scale == 1.0 else new * scale
    return kept * (1.0 - share) + scaled * share


@recorded
def _counted(batches: Any) -> Any:
    return batches + 1


class _BatchNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        shape = (num_features,)
        self.register_parameter("weight", Parameter(init.ones(shape)) if affine else None)
        self.register_parameter("bias", Parameter(init.zeros(shape)) if affine else None)
        keep = track_running_stats
        self.register_buffer("running_mean", init.zeros(shape) if keep else None)
        self.register_buffer("running_var", init.ones(shape) if keep else None)
        self.register_buffer("num_batches_tracked", array(0, "int64") if keep else None)

    def forward(self, x: Any) -> Any:
        self._check(x)
        weight = init.ones((self.num_features,)) if self.weight is None else self.weight
        bias = init.zeros((self.num_features,)) if self.bias is None else self.bias
        if not self.training and self.running_mean is not None:
            statistics = (self.running_mean, self.running_var)
            return x.apply("batch_norm", *statistics, weight, bias, eps=self.eps)
        y, mean, var = x.apply("batch_norm_training", weight, bias, eps=self.eps)
        if self.training and self.running_mean is not None:
            self._track(mean, var, x)
        return y

    def _track(self, mean: Any, var: Any, x: Any) -> None:
        """Running statistics take a share of the batch's; the variance without its bias."""
        count = x.type.numel // x.shape[1]
        if count == 1:
            what = f"{type(self).__name__} in training needs more than one value a channel"
            raise ShapeError(f"{what}, got {x.type}", x.builder.where(), "eval() uses what it kept")
        size = float(count) if isinstance(count, int) else full((), count, "float32")
        kept = self._buffers
        mean_kept, var_kept, tracked = (
            kept[n] for n in ("running_mean", "running_var", "num_batches_tracked")
        )
        assert mean_kept is not None
        assert var_kept is not None
        assert tracked is not None
        with no_grad():
            seen = _counted(tracked)
            share = 1.0 / seen.cast("float32") if self.momentum is None else self.momentum
            tracked.assign(seen)
            mean_kept.assign(_averaged(mean_kept, mean.detach(), 1.0, share))
            var_kept.assign(_averaged(var_kept, var.detach(), size / (size - 1.0), share))

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    """Over [batch, channels] or [batch, channels, length]."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Over [batch, channels, height, width]."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Over [batch, channels, depth, height, width]."""

    ranks = (5,)


class _InstanceNorm(_Norm):
    repeats = True

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = False) -> None:
        self.num_features, self.eps = num_features, eps
        shape = (num_features,)
        self.register_parameter("weight", Parameter(init.ones(shape)) if affine else None)
        self.register_parameter("bias", Parameter(init.zeros(shape)) if affine else None)

    def forward(self, x: Any) -> Any:
        self._check(x)
        y = group_norm(x, self.num_features, eps=self.eps)
        if self.weight is None:
            return y
        spatial = [1] * (x.ndim - 2)
        return y * reshaped(self.weight, (self.num_features, *spatial)) + reshaped(
            self.bias, (self.num_features, *spatial)
        )


class InstanceNorm1d(_InstanceNorm):
    """Over [batch, channels, length]."""

    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Over [batch, channels, height, width]."""

    ranks = (4,)
