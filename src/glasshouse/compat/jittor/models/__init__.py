"""`jittor.models`: the residual networks."""

from glasshouse.compat.jittor.models import resnet
from glasshouse.compat.missing import names_what_is_there

__all__ = ["resnet"]
__getattr__ = names_what_is_there("jittor.models", __all__)
