"""The closed set of core ops: importing this package fills the registry, one file a family."""

from glasshouse.ops import (
    activation,
    attention,
    barrier,
    conv,
    create,
    elementwise,
    fused,
    index,
    math,
    matmul,
    norm,
    pieces,
    pool,
    quant,
    random,
    reduce,
    resize,
    shape,
    softmax,
    sort,
)

__all__ = [
    "activation", "attention", "barrier", "conv", "create", "elementwise", "fused", "index",
    "math", "matmul", "norm", "pieces", "pool", "quant", "random", "reduce", "resize", "shape",
    "softmax", "sort",
]  # fmt: skip
