"""`aitemplate.utils`: printing graphs."""

from glasshouse.compat.aitemplate.utils import graph_utils
from glasshouse.compat.missing import names_what_is_there

__all__ = ["graph_utils"]
__getattr__ = names_what_is_there("aitemplate.utils", __all__)
