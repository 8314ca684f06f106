"""ATen ops spelled with core ops: importing this package fills the table, one file a family."""

from glasshouse.frontend.torch.aten import (
    activation,
    antialias,
    arithmetic,
    attention,
    backward,
    bessel,
    convert,
    create,
    eliminate,
    fourier,
    functions,
    grid,
    image,
    index,
    linear,
    loss,
    norm,
    pieces,
    places,
    random,
    rank,
    reduce,
    reduce_at,
    running,
    shape,
    solve,
    special,
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
    "IN_CONTEXT", "TABLE", "Context", "activation", "antialias", "apply", "arithmetic", "attention",
    "backward", "bessel", "convert", "create", "eliminate", "find", "fourier", "functions", "grid",
    "image", "index", "is_handle", "linear", "loss", "norm", "pieces", "places", "random", "rank",
    "reduce", "reduce_at", "running", "scalar", "shape", "solve", "special",
]  # fmt: skip
