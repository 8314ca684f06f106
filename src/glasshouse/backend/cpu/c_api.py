"""What a C program sees of a saved model: its header, and the tables behind `c_api.cpp`.

All names begin with the model's, so that one program can hold several models. The text is compiled
together with the function that runs the kernels: within one file, calls cannot end up in the
library of another model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from glasshouse.backend.base import INTERFACE_BEGINS, Interface, SavedModel
from glasshouse.backend.cpu.deploy import deployed
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import Symbol
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.lower.plan import Arrival, MemoryPlan, upper_bytes
from glasshouse.lower.program import Fallback, Program
from glasshouse.lower.symbols import symbol_name

_MAX_INT64 = 2**63 - 1


def _header(name: str) -> str:
    """The declarations that a C or C++ program includes."""
    return _HEADER.replace("NAME", name).replace("GUARD", f"GLASSHOUSE_{name.upper()}_H")


def c_interface(name: str, program: Program, saved: SavedModel) -> Interface:
    """The header, and its functions, to stand behind the function that runs the kernels."""
    return Interface(_header(name), _source(name, program, saved), deployed(name))


def _source(name: str, program: Program, saved: SavedModel) -> str:
    plan = program.memory
    graph = program.graph
    fallbacks = [s for s in program.steps if isinstance(s, Fallback)]
    reason = f"{fallbacks[0].node.op.name}: {fallbacks[0].why}" if fallbacks else ""
    lines = [
        f"\n{INTERFACE_BEGINS}",
        _TYPES,
        f"#define GH_NAME(x) {name}_##x",
        f"#define GH_MODEL {name}",
        _array("GhTensor", "kGhInputs", _inputs(graph, plan)),
        _array("GhOutput", "kGhOutputs", _outputs(graph, plan)),
        _array("GhSource", "kGhSources", _sources(program, plan, saved.offsets)),
        _array("GhUpdate", "kGhUpdates", _updates(plan)),
        _array("GhSymbol", "kGhSymbols", [_symbol(s) for s in program.symbols]),
        _array("int", "kGhPacked", [str(place) for place in plan.packed.values()]),
        f"static const int kGhInputCount = {len(graph.inputs)};",
        f"static const int kGhOutputCount = {len(graph.outputs)};",
        f"static const int kGhSymbolCount = {len(program.symbols)};",
        f"static const int kGhTable = {max(plan.table_size, 1)};",
        f"static const int kGhSteps = {len(program.steps)};",
        f"static const int64_t kGhArenaBytes = {plan.arena_bytes};",
        f"static const int64_t kGhWeightBytes = {saved.bytes};",
        f"static const bool kGhWeightsInside = {str(saved.inside).lower()};",
        f"static const char kGhNeedsPython[] = {_text(reason)};",
        f"static const char kGhContract[] = {_text(saved.contract)};",
        f"struct {name};",
        _declarations(name),
        _shape("gh_input_shape", graph.inputs, program.symbols),
        _shape("gh_output_shape", graph.outputs, program.symbols),
        Path(__file__).with_suffix(".cpp").read_text(),
    ]
    return "\n".join(lines)


def _declarations(name: str) -> str:
    """What is used before it stands there."""
    return (
        '#define GH_API extern "C" __attribute__((visibility("default")))\n'
        f"GH_API int64_t {name}_output_bytes(int i, const int64_t* sizes);"
    )


def _text(text: str) -> str:
    return json.dumps(text)


def _array(type: str, name: str, rows: Sequence[str]) -> str:
    """An empty list becomes one row of -1, which readers skip: C++ has no empty arrays."""
    empty = "-1" if type == "int" else "{}" if type in ("GhTensor", "GhOutput") else "{-1}"
    empty = '{"", 0, 0}' if type == "GhSymbol" else empty
    return f"static const {type} {name}[] = {{{', '.join(rows) or empty}}};"


def _row(*cells: str | int | bool) -> str:
    texts = (str(c).lower() if isinstance(c, bool) else str(c) for c in cells)
    return f"{{{', '.join(texts)}}}"


def _tensor(name: str, value: Value, plan: MemoryPlan) -> tuple[str | int, ...]:
    type = value.type
    size = type.dtype.itemsize
    return _text(name), _text(type.dtype.name), type.rank, size, plan.table[value]


def _inputs(graph: Graph, plan: MemoryPlan) -> list[str]:
    return [_row(*_tensor(v.node.attrs["name"], v, plan)) for v in graph.inputs]


def _outputs(graph: Graph, plan: MemoryPlan) -> list[str]:
    rows: list[str] = []
    names = graph.output_names
    for number, value in enumerate(graph.outputs):
        name = names[number] if number < len(names) else ""
        rows.append(_row(*_tensor(name, value, plan), plan.direct[number]))
    return rows


def _sources(program: Program, plan: MemoryPlan, offsets: Mapping[Node, int]) -> list[str]:
    leaves = set(plan.kept)
    rows: list[str] = []
    for node, offset in offsets.items():
        value, changes = node.output, node.op.name == "variable"
        size = upper_bytes(value.type.nbytes)
        rows.append(_row(plan.table[value], offset, size, changes, value in leaves))
    return rows


def _updates(plan: MemoryPlan) -> list[str]:
    rows: list[str] = []
    for update in plan.updates:
        places = plan.table[update.variable.output], plan.table[update.new]
        rows.append(_row(*places, upper_bytes(update.new.type.nbytes), _ARRIVAL[update.how]))
    return rows


_ARRIVAL = {Arrival.IN_PLACE: "kGhInPlace", Arrival.TURNS: "kGhTurns", Arrival.COPY: "kGhCopy"}


def _symbol(symbol: Symbol) -> str:
    high = _MAX_INT64 if symbol.high is None else symbol.high
    return f"{{{_text(symbol.name)}, {symbol.low}, {high}}}"


def _shape(function: str, values: Sequence[Value], symbols: Sequence[Symbol]) -> str:
    lines = [f"static void {function}(int i, const int64_t* sizes, int64_t* dims) {{"]
    lines.append("  (void)sizes; (void)dims;")
    for number, symbol in enumerate(symbols):
        variable = symbol_name(symbol.name)
        lines.append(f"  const int64_t {variable} = sizes[{number}]; (void){variable};")
    lines.append("  switch (i) {")
    for number, value in enumerate(values):
        sets = " ".join(f"dims[{d}] = {size_text(n)};" for d, n in enumerate(value.type.shape))
        lines.append(f"    case {number}: {sets} break;")
    return "\n".join([*lines, "  }", "}"])


_TYPES = """
// The model, as the C interface sees it. A place is an index into the table of pointers.
struct GhTensor { const char* name; const char* type; int rank; int item; int place; };
struct GhOutput { const char* name; const char* type; int rank; int item; int place; bool direct; };
struct GhSource { int place; int64_t offset; int64_t bytes; bool variable; bool leaves; };
enum GhArrival { kGhInPlace, kGhTurns, kGhCopy };
struct GhUpdate { int variable; int next; int64_t bytes; GhArrival how; };
struct GhSymbol { const char* name; int64_t low; int64_t high; };
"""

_HEADER = """\
/* A model compiled by Glasshouse. Link with libNAME.so; no Python is needed. C++ has NAME.hpp.
 *
 *   NAME* m = NAME_create("folder with weights.bin", 0);   0: a thread for each processor
 *   if (!m) puts(NAME_error());
 *   NAME_run(m, inputs, outputs, NULL);                    one pointer for each tensor, row-major
 *   NAME_destroy(m);
 *
 * Where there is no weights.bin, the weights are in the library and the folder may be NULL.
 * A model with symbolic sizes takes their values in `sizes`, in the order of NAME_symbol_name.
 * Outputs must not lie on inputs or on each other.
 * One model runs one request at a time (further callers wait); make several to run several.
 */
#ifndef GUARD
#define GUARD
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct NAME NAME;

NAME* NAME_create(const char* folder, int threads); /* NULL when it failed */
int NAME_run(NAME* model, const void* const* inputs, void* const* outputs, const int64_t* sizes);
void NAME_destroy(NAME* model);
const char* NAME_error(void); /* what went wrong last on this thread */

int NAME_input_count(void);
const char* NAME_input_name(int i);
const char* NAME_input_type(int i); /* "float32", "int64" ... */
int NAME_input_rank(int i);
void NAME_input_shape(int i, const int64_t* sizes, int64_t* dims);
int64_t NAME_input_bytes(int i, const int64_t* sizes);

int NAME_output_count(void);
const char* NAME_output_name(int i);
const char* NAME_output_type(int i);
int NAME_output_rank(int i);
void NAME_output_shape(int i, const int64_t* sizes, int64_t* dims);
int64_t NAME_output_bytes(int i, const int64_t* sizes);

int NAME_symbol_count(void);
const char* NAME_symbol_name(int i);
int64_t NAME_symbol_low(int i); /* the range that was compiled for */
int64_t NAME_symbol_high(int i);

#ifdef __cplusplus
}
#endif
#endif
"""
