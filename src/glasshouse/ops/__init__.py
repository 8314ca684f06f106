"""The closed set of core ops: importing this package fills the registry, one file for each family."""

from glasshouse.ops import elementwise, fused

__all__ = ["elementwise", "fused"]
