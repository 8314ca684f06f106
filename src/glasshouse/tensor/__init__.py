"""Lazy tensors, capture of graphs, gradients and optimisers."""

import glasshouse.ops  # noqa: F401  # fills the registry that tensors compute with
from glasshouse.tensor.tensor import Tensor

__all__ = ["Tensor"]
