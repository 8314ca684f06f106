"""ATen ops spelled with core ops: importing this package fills the table, one file a family."""

from glasshouse.frontend.torch.aten import (
    activation,
    arithmetic,
    attention,
    backward,
    convert,
    create,
    functions,
    image,
    index,
    linear,
    loss,
    norm,
    pieces,
    random,
    reduce,
    running,
    shape,
)
from glasshouse.frontend.torch.aten.registry import (
    IN_CONTEXT,
    TABLE,
    Context,
    apply,
    find,
    is_handle,
    scalar,
)

__all__ = [
    "IN_CONTEXT", "TABLE", "Context", "activation", "apply", "arithmetic", "attention", "backward",
    "convert",
    "create", "find", "functions", "image", "index", "is_handle", "linear", "loss", "norm",
    "pieces", "random", "reduce", "running", "scalar", "shape",
]  # fmt: skip
