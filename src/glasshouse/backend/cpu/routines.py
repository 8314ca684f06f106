"""All routines of the CPU backend, and all forms that they bring constants into."""

from __future__ import annotations

from glasshouse.backend.cpu import (
    attention,
    bags,
    batch_norm,
    conv,
    conv3d,
    conv_any,
    conv_grad,
    factor,
    few_channels,
    few_filters,
    fourier,
    grouped,
    groups,
    int8,
    library,
    matmul,
    planes,
    pool,
    recurrent,
    resize,
    running,
    spread,
    transposed,
)
from glasshouse.backend.cpu.routine import FormSpelling, Routine

_FAMILIES = (
    attention.ROUTINES, bags.ROUTINES, batch_norm.ROUTINES, conv.ROUTINES, conv3d.ROUTINES,
    conv_any.ROUTINES, conv_grad.ROUTINES, factor.ROUTINES, few_channels.ROUTINES,
    few_filters.ROUTINES, fourier.ROUTINES, grouped.ROUTINES, groups.ROUTINES, int8.ROUTINES,
    library.ROUTINES, matmul.ROUTINES,
    planes.ROUTINES, pool.ROUTINES, recurrent.ROUTINES, resize.ROUTINES, running.ROUTINES,
    spread.ROUTINES, transposed.ROUTINES,
)  # fmt: skip
ROUTINES: dict[str, Routine] = {name: r for family in _FAMILIES for name, r in family.items()}
FORMS: dict[str, FormSpelling] = {
    **conv.FORMS,
    **conv3d.FORMS,
    **few_channels.FORMS,
    **few_filters.FORMS,
    **grouped.FORMS,
    **groups.FORMS,
    **int8.FORMS,
    **matmul.FORMS,
    **recurrent.FORMS,
    **spread.FORMS,
    **transposed.FORMS,
}
