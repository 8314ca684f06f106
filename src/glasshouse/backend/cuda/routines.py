"""All routines of the CUDA backend."""

from __future__ import annotations

from glasshouse.backend.cuda import (
    attention,
    attention_grad,
    conv,
    extremes,
    float8,
    fourier,
    groups,
    int8,
    library_conv,
    matmul,
    norm_grad,
    order,
    places,
    pools,
    pools_grad,
    products,
    recurrent,
    recurrent_grad,
    resize,
    row_parts,
    running,
    transposed,
)
from glasshouse.backend.cuda.routine import CudaRoutine

ROUTINES: dict[str, CudaRoutine] = {
    **attention.ROUTINES,
    **attention_grad.ROUTINES,
    **conv.ROUTINES,
    **extremes.ROUTINES,
    **float8.ROUTINES,
    **fourier.ROUTINES,
    **groups.ROUTINES,
    **int8.ROUTINES,
    **library_conv.ROUTINES,
    **matmul.ROUTINES,
    **norm_grad.ROUTINES,
    **order.ROUTINES,
    **places.ROUTINES,
    **pools.ROUTINES,
    **pools_grad.ROUTINES,
    **products.ROUTINES,
    **recurrent.ROUTINES,
    **recurrent_grad.ROUTINES,
    **resize.ROUTINES,
    **running.ROUTINES,
    **transposed.ROUTINES,
    **row_parts.ROUTINES,
}
