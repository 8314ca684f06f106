"""The C interface of a model that runs on processors: shared tables, then `c_api.cpp`."""

from __future__ import annotations

from pathlib import Path

from glasshouse.backend.base import Interface, SavedModel
from glasshouse.backend.cpu.deploy import deployed
from glasshouse.backend.cxx.saved_interface import c_array, c_header, c_queries, c_tables
from glasshouse.lower.program import Program


def c_interface(name: str, program: Program, saved: SavedModel) -> Interface:
    """The header, and its functions, to stand behind the function that runs the kernels."""
    packed = [str(place) for place in program.memory.packed.values()]
    source = "\n".join(
        [
            c_tables(name, program, saved),
            c_array("int", "kGhPacked", packed),
            Path(__file__).with_suffix(".cpp").read_text(),
            c_queries(),
        ]
    )
    header = c_header(name, "threads", "0: a thread for each processor")
    return Interface(header, source, deployed(name))
