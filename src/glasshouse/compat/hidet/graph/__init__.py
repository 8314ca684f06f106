"""`hidet.graph`: modules and ops."""

from glasshouse import Tensor
from glasshouse.compat.hidet.graph import nn, ops
from glasshouse.compat.missing import names_what_is_there

__all__ = ["Tensor", "nn", "ops"]
__getattr__ = names_what_is_there("hidet.graph", __all__)
