"""All routines of the CUDA backend."""

from __future__ import annotations

from glasshouse.backend.cuda import attention, conv, library, matmul, places, products
from glasshouse.backend.cuda.routine import CudaRoutine

ROUTINES: dict[str, CudaRoutine] = {
    **attention.ROUTINES,
    **conv.ROUTINES,
    **library.ROUTINES,
    **matmul.ROUTINES,
    **places.ROUTINES,
    **products.ROUTINES,
}
