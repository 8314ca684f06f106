"""The closed set of core ops: importing this package fills the registry, one file a family."""

from glasshouse.ops import create, elementwise, fused, index, matmul, pieces, shape

__all__ = ["create", "elementwise", "fused", "index", "matmul", "pieces", "shape"]
