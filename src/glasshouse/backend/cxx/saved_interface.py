"""What a C program sees of a saved model: its header, and tables of its tensors, weights and sizes.

All names begin with the model's, so that one program can hold several models. The text is compiled
together with the code that runs the model: within one file, calls cannot end up in the library of
another model. `saved_weights.cpp` finds the weights, `saved_call.cpp` looks at what a call gives,
`saved_queries.cpp` answers questions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from glasshouse.backend.base import INTERFACE_BEGINS, SavedModel
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import Symbol
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.lower.plan import Arrival, MemoryPlan, upper_bytes
from glasshouse.lower.program import Fallback, Program
from glasshouse.lower.symbols import symbol_name

_HERE = Path(__file__).parent
_MAX_INT64 = 2**63 - 1


def c_header(name: str, second: str, which: str, pointers: str = "") -> str:
    """The declarations that a C or C++ program includes.

    `second` is the second parameter of NAME_create, `which` what 0 means there; `pointers` are
    further lines of the comment.
    """
    lines = "".join(f" * {line}\n" for line in pointers.splitlines())
    filled = _HEADER.replace("SECOND", second).replace("WHICH", which).replace("POINTERS", lines)
    return filled.replace("NAME", name).replace("GUARD", f"GLASSHOUSE_{name.upper()}_H")


def c_tables(name: str, program: Program, saved: SavedModel, before: str = "") -> str:
    """The model as tables, in front of the code that runs it; `before` stands in front of them."""
    plan = program.memory
    graph = program.graph
    fallbacks = [s for s in program.steps if isinstance(s, Fallback)]
    reason = f"{fallbacks[0].node.op.name}: {fallbacks[0].why}" if fallbacks else ""
    lines = [
        f"\n{INTERFACE_BEGINS}",
        before,
        _TYPES,
        f"#define GH_NAME(x) {name}_##x",
        f"#define GH_MODEL {name}",
        c_array("GhTensor", "kGhInputs", _inputs(graph, plan)),
        c_array("GhOutput", "kGhOutputs", _outputs(graph, plan)),
        c_array("GhSource", "kGhSources", _sources(plan, saved.offsets)),
        c_array("GhUpdate", "kGhUpdates", _updates(plan)),
        c_array("GhSymbol", "kGhSymbols", [_symbol(s) for s in program.symbols]),
        f"static const int kGhInputCount = {len(graph.inputs)};",
        f"static const int kGhOutputCount = {len(graph.outputs)};",
        f"static const int kGhSymbolCount = {len(program.symbols)};",
        f"static const int kGhTable = {max(plan.table_size, 1)};",
        f"static const int kGhSteps = {len(program.steps)};",
        f"static const int64_t kGhArenaBytes = {plan.arena_bytes};",
        f"static const int64_t kGhWeightBytes = {saved.bytes};",
        f"static const bool kGhWeightsInside = {str(saved.inside).lower()};",
        f"static const char kGhNeedsPython[] = {c_text(reason)};",
        f"static const char kGhContract[] = {c_text(saved.contract)};",
        f"struct {name};",
        _declarations(name),
        _shape("gh_input_shape", graph.inputs, program.symbols),
        _shape("gh_output_shape", graph.outputs, program.symbols),
        (_HERE / "saved_weights.cpp").read_text(),
        (_HERE / "saved_call.cpp").read_text(),
    ]
    return "\n".join(lines)


def c_queries() -> str:
    """Functions that stand behind the code that runs the model."""
    return (_HERE / "saved_queries.cpp").read_text()


def _declarations(name: str) -> str:
    """What is used before it stands there."""
    return (
        '#define GH_API extern "C" __attribute__((visibility("default")))\n'
        f"GH_API int64_t {name}_input_bytes(int i, const int64_t* sizes);\n"
        f"GH_API int64_t {name}_output_bytes(int i, const int64_t* sizes);"
    )


def c_text(text: str) -> str:
    return json.dumps(text)


def c_array(type: str, name: str, rows: Sequence[str]) -> str:
    """An empty list becomes one row of -1, which readers skip: C++ has no empty arrays."""
    empty = "-1" if type == "int" else "{}" if type in ("GhTensor", "GhOutput") else "{-1}"
    empty = '{"", 0, 0}' if type == "GhSymbol" else empty
    return f"static const {type} {name}[] = {{{', '.join(rows) or empty}}};"


def c_row(*cells: str | int | bool) -> str:
    texts = (str(c).lower() if isinstance(c, bool) else str(c) for c in cells)
    return f"{{{', '.join(texts)}}}"


def _tensor(name: str, value: Value, plan: MemoryPlan) -> tuple[str | int, ...]:
    type = value.type
    size = type.dtype.itemsize
    return c_text(name), c_text(type.dtype.name), type.rank, size, plan.table[value]


def _inputs(graph: Graph, plan: MemoryPlan) -> list[str]:
    return [c_row(*_tensor(v.node.attrs["name"], v, plan)) for v in graph.inputs]


def _outputs(graph: Graph, plan: MemoryPlan) -> list[str]:
    rows: list[str] = []
    names = graph.output_names
    for number, value in enumerate(graph.outputs):
        name = names[number] if number < len(names) else ""
        rows.append(c_row(*_tensor(name, value, plan), plan.direct[number]))
    return rows


def _sources(plan: MemoryPlan, offsets: Mapping[Node, int]) -> list[str]:
    leaves = set(plan.kept)
    rows: list[str] = []
    for node, offset in offsets.items():
        value, changes = node.output, node.op.name == "variable"
        size = upper_bytes(value.type.nbytes)
        rows.append(c_row(plan.table[value], offset, size, changes, value in leaves))
    return rows


def _updates(plan: MemoryPlan) -> list[str]:
    rows: list[str] = []
    for update in plan.updates:
        places = plan.table[update.variable.output], plan.table[update.new]
        rows.append(c_row(*places, upper_bytes(update.new.type.nbytes), _ARRIVAL[update.how]))
    return rows


_ARRIVAL = {Arrival.IN_PLACE: "kGhInPlace", Arrival.TURNS: "kGhTurns", Arrival.COPY: "kGhCopy"}


def _symbol(symbol: Symbol) -> str:
    high = _MAX_INT64 if symbol.high is None else symbol.high
    return f"{{{c_text(symbol.name)}, {symbol.low}, {high}}}"


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
 *   NAME* m = NAME_create("folder with weights.bin", 0);   WHICH
 *   if (!m) puts(NAME_error());
 *   NAME_run(m, inputs, outputs, NULL);                    one pointer for each tensor, row-major
 *   NAME_destroy(m);
 *
POINTERS * Where there is no weights.bin, the weights are in the library and the folder may be NULL.
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

NAME* NAME_create(const char* folder, int SECOND); /* NULL when it failed */
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
