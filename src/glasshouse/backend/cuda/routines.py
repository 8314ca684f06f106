"""All routines of the CUDA backend."""

from __future__ import annotations

from glasshouse.backend.cuda import (
    attention,
    attention_grad,
    conv,
    float8,
    int8,
    library,
    matmul,
    norm_grad,
    places,
    products,
    recurrent_grad,
    resize,
    running,
    transposed,
)
from glasshouse.backend.cuda.routine import CudaRoutine

ROUTINES: dict[str, CudaRoutine] = {
    **attention.ROUTINES,
    **attention_grad.ROUTINES,
    **conv.ROUTINES,
    **float8.ROUTINES,
    **int8.ROUTINES,
    **library.ROUTINES,
    **matmul.ROUTINES,
    **norm_grad.ROUTINES,
    **places.ROUTINES,
    **products.ROUTINES,
    **recurrent_grad.ROUTINES,
    **resize.ROUTINES,
    **running.ROUTINES,
    **transposed.ROUTINES,
}
