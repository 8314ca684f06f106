"""`aitemplate.compiler`: transforms of graphs."""

from glasshouse.compat.aitemplate.compiler import transform
from glasshouse.compat.missing import names_what_is_there

__all__ = ["transform"]
__getattr__ = names_what_is_there("aitemplate.compiler", __all__)
