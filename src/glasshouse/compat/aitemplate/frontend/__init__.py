"""`aitemplate.frontend`: tensors that are only types, and modules that build graphs from them."""

from glasshouse.compat.aitemplate.frontend import nn
from glasshouse.compat.aitemplate.frontend.tensor import IntVar, Tensor
from glasshouse.compat.missing import names_what_is_there

__all__ = ["IntVar", "Tensor", "nn"]
__getattr__ = names_what_is_there("aitemplate.frontend", __all__)
