"""The closed set of core ops: importing this package fills the registry, one file a family."""

from glasshouse.ops import (
    activation,
    attention,
    bags,
    barrier,
    control,
    conv,
    create,
    elementwise,
    fourier,
    fused,
    groups,
    index,
    math,
    matmul,
    norm,
    opaque,
    pieces,
    pool,
    quant,
    random,
    recurrent,
    reduce,
    resize,
    running,
    scan,
    shape,
    softmax,
    sort,
)

__all__ = [
    "activation", "attention", "bags", "barrier", "control", "conv", "create", "elementwise",
    "fourier", "fused", "groups", "index", "math", "matmul", "norm", "opaque", "pieces", "pool",
    "quant", "random", "recurrent", "reduce", "resize", "running", "scan", "shape", "softmax",
    "sort",
]  # fmt: skip
