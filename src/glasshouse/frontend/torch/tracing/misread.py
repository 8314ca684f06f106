"""What PyTorch's tracer misreads in a model that is captured, said so that it does not.

`x.data` is `x.detach()`: the tracer does not see the attribute being read, and would take what it
gets for a constant, whose data are those of one call, or none. `unique_consecutive` counts its axis
from the front: counted from the back, the tracer gives its result twice as many axes. `ctc_loss`
has a result whose size the data decide, and which nobody sees; `cov` and `combinations` ask the
data what sizes answer, `gaussian_nll_loss` what changes no number. `queue[pointer] = x` reads a
number to make a view. Sparse tensors are made of their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from glasshouse.frontend.torch import ctc
from glasshouse.frontend.torch.sparse_parts import MAKERS
from glasshouse.frontend.torch.tracing import combinations, covariance, likelihood, named_places

_READ = torch.Tensor.data.__get__
_ASSIGN = torch.Tensor.__setitem__
_UNIQUE = (torch.unique_consecutive, torch.Tensor.unique_consecutive)


class ReadRight(TorchFunctionMode):
    """While it holds, models are traced as they are meant."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Any other call is made as it is."""
        given = dict(kwargs or {})
        if func == _READ:
            return args[0].detach()
        if func is _ASSIGN and named_places.is_named(args):
            return named_places.assign(*args)
        if func in MAKERS:
            return MAKERS[func](*args, **given)
        if func in ctc.CALLS:
            return ctc.ctc_loss(*args, **given)
        if func in covariance.COVARIANCES and covariance.is_plain(args, given):
            return covariance.cov(*args, **given)
        if func in covariance.CORRELATIONS and covariance.is_plain(args, given):
            return covariance.corrcoef(*args)
        if func is torch.combinations and combinations.is_plain(args, given):
            return combinations.combinations(*args, **given)
        if func in likelihood.LOSSES and likelihood.is_plain(args, given):
            return likelihood.gaussian_nll_loss(*args, **given)
        if func in _UNIQUE and (given.get("dim") or 0) < 0:
            given["dim"] += args[0].dim()
        return func(*args, **given)
