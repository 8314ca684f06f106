"""Renders a kernel of kernel IR as a file of CUDA C++ with a map from lines to ops."""

from __future__ import annotations

from glasshouse.backend.cuda.chains import beside, groups
from glasshouse.backend.cuda.launch import CudaKernel
from glasshouse.backend.cuda.nests import render_nests
from glasshouse.backend.cuda.routines import ROUTINES
from glasshouse.backend.cuda.text import CudaText
from glasshouse.ir.dtype import NARROW
from glasshouse.lower.kernel.kernel import OUTPUT, Kernel
from glasshouse.lower.kernel.statement import Tile


def render(kernel: Kernel) -> CudaKernel:
    """The functions of a kernel, in order: one for each tile, and for nests beside each other."""
    out = CudaText(kernel)
    out.add(f"// {', '.join(kernel.ops)}")
    if all(b.dtype in NARROW for b in kernel.buffers if b.role == OUTPUT):
        out.add("#define GH_HALF_RESULTS 1")
    headers = "kernels" if kernel.tiles else "loops"
    out.add(f'#include "glasshouse/{headers}.cuh"')
    out.add("")
    for together in beside(groups(kernel.body)):
        first = together[0][0]
        if isinstance(first, Tile):
            ROUTINES[first.routine].render(out, first)
            out.tile += 1
        else:
            render_nests(out, together)
    text = "\n".join(out.lines).rstrip() + "\n"
    lines = tuple(out.ops[: text.count("\n")])
    return CudaKernel(kernel.name, text, lines, tuple(out.launches), out.symbols)
