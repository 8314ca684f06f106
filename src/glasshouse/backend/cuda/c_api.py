"""The C interface of a model that runs on a GPU: the plan of launches as tables, and `c_api.cpp`.

The library holds the cubins, and needs of a machine no more than NVIDIA's driver.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glasshouse.backend.base import GeneratedSource, Interface, SavedModel
from glasshouse.backend.cuda.launch import CONTEXT
from glasshouse.backend.cuda.target import capability
from glasshouse.backend.cuda.tensor_map import CELLS
from glasshouse.backend.cxx.deploy import gpu_package
from glasshouse.backend.cxx.saved_interface import (
    c_array,
    c_header,
    c_queries,
    c_row,
    c_tables,
    c_text,
)
from glasshouse.lower.program import Program

_INCLUDE = Path(__file__).parent / "include"
PROGRAM = "GH_PROGRAM"
"""A macro: the path of the file with plan and cubins."""
_POINTERS = """\
Inputs and outputs are memory of the host, which is copied, or of the GPU, which is used as it is
where it is aligned to 16 bytes. A run has ended when NAME_run returns. Only libcuda.so.1 is needed.
"""


def c_interface(
    name: str, program: Program, saved: SavedModel, source: GeneratedSource
) -> Interface:
    """The header, and all of the library's code."""
    plan = json.loads(source.main)
    text = "\n".join(
        [
            c_tables(name, program, saved, _SIZES),
            *_launches(plan),
            c_array("GhForm", "kGhForms", [c_row(p, *at) for p, at in saved.forms.items()]),
            Path(__file__).with_suffix(".cpp").read_text(),
            c_queries(),
        ]
    )
    header = c_header(name, "gpu", "0: the first GPU", _POINTERS)
    headers = {f"source/include/{p.relative_to(_INCLUDE)}": p.read_text()
               for p in sorted(_INCLUDE.rglob("*.cuh"))}  # fmt: skip
    return Interface(header, text, {**gpu_package(name), **headers})


def _launches(plan: Mapping[str, Any]) -> list[str]:
    """Kernels, their launches in order with grids, and the arguments of each."""
    kernels = list(plan["kernels"])
    symbols: list[str] = plan["symbols"]
    rows: list[str] = []
    arguments: list[str] = []
    cases: list[str] = []
    maps: list[str] = []
    described: list[str] = []
    cell = 0
    for step, name, places in plan["steps"]:
        kernel = plan["kernels"][name]
        given = [c_row(_KINDS.index(kind), at, sum(further)) for kind, at, *further in places]
        given += [c_row(_KINDS.index("size"), symbols.index(s), 0) for s in kernel["symbols"]]
        for launch in kernel["launches"]:
            count = len(launch["maps"])
            shape = launch["threads"], launch["shared"], len(arguments), len(given), cell, count
            rows.append(c_row(step, kernels.index(name), c_text(launch["function"]), *shape))
            sets = [f"grid[{i}] = (unsigned)({_size(d, symbols)});"
                    for i, d in enumerate(launch["grid"])]  # fmt: skip
            sets.append(f"*counters = {_size(launch['counters'], symbols)};")
            cases.append(f"    case {len(cases)}: {' '.join(sets)} break;")
            for number, given_map in enumerate(launch["maps"]):
                at = cell + 1 + CONTEXT + len(given) + number * CELLS
                window = given_map["window"] or [[0, 0], [0, 0], [0, 0]]
                corners = [n for pair in window for n in pair]
                rank = len(given_map["sizes"])
                source = cell + CONTEXT + given_map["argument"]
                maps.append(c_row(at, source, rank, *given_map["box"], *[1] * (5 - rank), *corners))
                parts = [f"extents[{i}] = (uint64_t)({_size(d, symbols)});"
                         for i, d in enumerate(given_map["sizes"])]  # fmt: skip
                parts += [f"steps[{i}] = (uint64_t)({_size(d, symbols)});"
                          for i, d in enumerate(given_map["steps"])]  # fmt: skip
                parts.append(f"*offset = {_size(given_map['offset'], symbols)};")
                described.append(f"    case {len(described)}: {' '.join(parts)} break;")
            cell += 1 + CONTEXT + len(given) + count * CELLS
        arguments += given
    return [
        _TYPES,
        f"static const int kGhArch = {capability(plan['arch'])};",
        f"static const int kGhKernelCount = {len(kernels)};",
        f"static const int kGhLaunchCount = {len(rows)};",
        f"static const int kGhCellCount = {cell};",
        f"static const int64_t kGhWork = {plan['work']};",
        f"static const char* const kGhKernels[] = {{{_names(kernels)}}};",
        c_array("GhLaunch", "kGhLaunches", rows).replace(
            "{{-1}}", '{{-1, -1, "", 0, 0, 0, 0, 0, 0}}'
        ),
        c_array("GhArgument", "kGhArguments", arguments),
        f"static const int kGhMapCount = {len(maps)};",
        c_array("GhMap", "kGhMaps", maps),
        f"static const bool kGhRead[] = {{{', '.join(_read(plan))}}};",
        "static void gh_grid(",
        "    int launch, const int64_t* sizes, unsigned* grid, int64_t* counters) {",
        "  (void)sizes;",
        "  switch (launch) {",
        *cases,
        "  }",
        "}",
        "static void gh_extents(",
        "    int map, const int64_t* sizes, uint64_t* extents, uint64_t* steps, int64_t* offset) {",
        "  (void)sizes, (void)extents, (void)steps, (void)offset;",
        "  switch (map) {",
        *described,
        "  }",
        "}",
    ]


def _read(plan: Mapping[str, Any]) -> list[str]:
    """For each place of the table, whether kernels read or write there."""
    used = {place[1] for _, _, places in plan["steps"] for place in places if place[0] == "table"}
    return [str(place in used).lower() for place in range(plan["places"])]


def _names(kernels: list[str]) -> str:
    return ", ".join(c_text(f"{k}.cubin") for k in kernels) or '""'


def _size(dim: Any, symbols: list[str]) -> str:
    """A size of the plan (see `plan.py`) as an expression."""
    if isinstance(dim, int):
        return str(dim)
    terms = []
    for factor, atoms in dim:
        parts = [str(factor) if factor >= 0 else f"({factor})"]
        for atom in atoms:
            if isinstance(atom, str):
                parts.append(f"sizes[{symbols.index(atom)}]")
            else:
                left, right = _size(atom[1], symbols), _size(atom[2], symbols)
                parts.append(f"{_FUNCTIONS[atom[0]]}<int64_t>({left}, {right})")
        terms.append(" * ".join(parts))
    return f"({' + '.join(terms) or '0'})"


_KINDS = ("table", "arena", "unread", "size")
_FUNCTIONS = {
    "//": "gh::floor_div", "%": "gh::floor_mod", "min": "gh::min_of", "max": "gh::max_of",
}  # fmt: skip

_SIZES = """
#include <stdint.h>
namespace gh {
template <class T> static T floor_div(T a, T b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
template <class T> static T floor_mod(T a, T b) { return a - floor_div(a, b) * b; }
template <class T> static T min_of(T a, T b) { return a < b ? a : b; }
template <class T> static T max_of(T a, T b) { return a > b ? a : b; }
}  // namespace gh
"""

_TYPES = """
// Launches in order. Arguments: kind 0 is a place of the table and how many bytes behind what it
// points to, 1 an offset into the arena, 2 what is not read, 3 the number of a size.
struct GhLaunch {
  int step, kernel;
  const char* function;
  int threads, shared, first, count, cell, maps;
};
// What the copy engine needs of an operand: 16 cells from `cell` on, for the address in `source`.
struct GhMap { int cell, source, rank, box[4], lower[2], upper[2], strides[2]; };
struct GhArgument { int kind; int64_t value, behind; };
struct GhForm { int place; int64_t offset; int64_t bytes; };
"""
