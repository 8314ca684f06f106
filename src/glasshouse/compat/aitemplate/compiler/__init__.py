"""`aitemplate.compiler`: transforms of graphs, and compiled models."""

from glasshouse.compat.aitemplate.compiler import transform
from glasshouse.compat.aitemplate.compiler.compile_model import compile_model
from glasshouse.compat.aitemplate.compiler.model import Model
from glasshouse.compat.missing import names_what_is_there

__all__ = ["Model", "compile_model", "transform"]
__getattr__ = names_what_is_there("aitemplate.compiler", __all__)
