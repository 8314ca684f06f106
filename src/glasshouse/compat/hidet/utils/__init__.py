"""`hidet.utils`: writing graphs to files."""

from glasshouse.compat.hidet.utils import netron
from glasshouse.compat.missing import names_what_is_there

__all__ = ["netron"]
__getattr__ = names_what_is_there("hidet.utils", __all__)
