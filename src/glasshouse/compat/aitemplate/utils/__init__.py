"""`aitemplate.utils`: printing and drawing graphs."""

from glasshouse.compat.aitemplate.utils import graph_utils, visualization
from glasshouse.compat.missing import names_what_is_there

__all__ = ["graph_utils", "visualization"]
__getattr__ = names_what_is_there("aitemplate.utils", __all__)
