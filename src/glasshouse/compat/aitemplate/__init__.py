"""AITemplate's names for what Glasshouse has; the parts are named as there."""

from glasshouse.compat.aitemplate import compiler, frontend, testing, utils
from glasshouse.compat.missing import names_what_is_there

__all__ = ["compiler", "frontend", "testing", "utils"]
__getattr__ = names_what_is_there("aitemplate", __all__)
