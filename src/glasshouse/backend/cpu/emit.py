"""Decides the C++ of a whole program: a function for each kernel, and one that calls them all.

Data reaches the code through one table of pointers (inputs, outputs, constants, variables, packed
weights, values of fallbacks) and one arena for all in between; `Layout` says what lies where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Value
from glasshouse.lower.cxx import C_TYPE
from glasshouse.lower.program import Call, Fallback, Kernel, Packed, Program

_EXPORT = 'extern "C" __attribute__((visibility("default"))) '
_HEAD = '#include "glasshouse/kernels.h"\n'


@dataclass
class Layout:
    """Where each value lies: a place in the table of pointers, or an offset in the arena."""

    table: dict[Value, int] = field(default_factory=dict)
    packed: dict[Packed, int] = field(default_factory=dict)
    arena: dict[Value, int] = field(default_factory=dict)
    arena_bytes: int = 0
    tensor_bytes: int = 0  # of the values in the arena, if each had memory of its own
    work_offset: int = 0  # where in the arena the workspace of the running kernel begins
    unbounded: list[Value] = field(default_factory=list)  # in the table; memory anew for each run
    workspaces: list[Dim] = field(default_factory=list)  # those without a bound, in bytes

    @property
    def table_size(self) -> int:
        return len(set(self.table.values()) | set(self.packed.values()))


@dataclass(frozen=True)
class Source:
    """The generated code: a file for each kernel, by name, and the one that calls them."""

    kernels: Mapping[str, str]
    main: str


def emit(program: Program, layout: Layout) -> Source:
    kernels = {k.name: kernel_source(k) for k in program.kernels}
    return Source(kernels, _main(program, layout))


def kernel_source(kernel: Kernel) -> str:
    """One kernel as a file; the ops that it computes stand above it.

    It is named after its content and weak: objects built for other programs may hold it as well.
    """
    head = f"{_HEAD}// {' '.join(kernel.ops)}\n__attribute__((weak)) "
    return f"{head}void {kernel.symbol}{kernel.text}\n"


def _main(program: Program, layout: Layout) -> str:
    lines = [_HEAD]
    lines += [f"void {k.symbol}{k.text.split(') {', 1)[0]});" for k in program.kernels]
    packs: dict[str, str] = {}
    for packed in layout.packed:
        packs.setdefault(packed.text, f"pack{len(packs)}")
    lines += [f"static void {name}{text}" for text, name in packs.items()]
    lines += _packed_sizes(layout)
    lines += _prepare(layout, packs)
    lines += _run(program, layout)
    lines += _CALL
    lines += _POOL
    return "\n".join(lines) + "\n"


def _packed_sizes(layout: Layout) -> list[str]:
    """Tells how many bytes each packed constant takes on this machine."""
    lines = [_EXPORT + "int64_t glasshouse_packed_bytes(int place) {"]
    lines.append("  switch (place) {")
    lines += [
        f"    case {place}: return {packed.nbytes};" for packed, place in layout.packed.items()
    ]
    return [*lines, "  }", "  return 0;", "}"]


def _prepare(layout: Layout, packs: Mapping[str, str]) -> list[str]:
    """Brings constants into the form that kernels want; one without a place to go to is left."""
    lines = [
        _EXPORT + "void glasshouse_prepare(void* pool, void* const* table) {",
        "  gh::ThreadPool& threads = *(gh::ThreadPool*)pool;",
        "  (void)threads; (void)table;",
    ]
    for packed, place in layout.packed.items():
        ctype = C_TYPE[packed.source.type.dtype]
        source = layout.table[packed.source]
        lines.append(
            f"  if (table[{place}]) "
            f"{packs[packed.text]}(threads, (const {ctype}*)table[{source}], table[{place}]);"
        )
    return [*lines, "}"]


def _run(program: Program, layout: Layout) -> list[str]:
    """Segments end at fallbacks; `from` and `to` count steps."""
    lines = [
        _EXPORT + "int glasshouse_run(",
        "    void* pool, void* const* table, char* arena, const int64_t* sizes, int from, int to,",
        "    double* times) {",
        "  gh::Context ctx{(gh::ThreadPool*)pool};",
        f"  char* work = arena + {layout.work_offset};",
        "  (void)work; (void)sizes; (void)table;",
        "  for (int step = from; step < to; ++step) {",
        "    const double start = times ? gh::seconds() : 0;",
        "    switch (step) {",
    ]
    for number, step in enumerate(program.steps):
        if isinstance(step, Fallback):
            continue
        lines.append(f"      case {number}: {_call_text(step, program, layout)} break;")
    lines += [
        "    }",
        "    if (times) times[step] += gh::seconds() - start;",
        "  }",
        "  return ctx.bad_index;",
        "}",
    ]
    return lines


def _call_text(call: Call, program: Program, layout: Layout) -> str:
    arguments = ["ctx", "work", "sizes"]
    for operand in call.inputs:
        if isinstance(operand, Packed):
            arguments.append(f"table[{layout.packed[operand]}]")
        else:
            arguments.append(_pointer(operand, "const ", program, layout))
    arguments += [_pointer(v, "", program, layout) for v in call.outputs]
    return f"{call.kernel.symbol}({', '.join(arguments)});"


def _pointer(value: Value, const: str, program: Program, layout: Layout) -> str:
    ctype = C_TYPE[value.type.dtype]
    value = value if value in layout.table else program.buffer_of(value)
    if value in layout.table:
        return f"({const}{ctype}*)table[{layout.table[value]}]"
    return f"({const}{ctype}*)(arena + {layout.arena[value]})"


# All that a run needs in one place: Python passes one argument in 0.15 us, seven in 0.32.
_CALL = [
    _EXPORT + "int glasshouse_call(void* const* a) {",
    "  return glasshouse_run(",
    "      a[0], (void* const*)a[1], (char*)a[2], (const int64_t*)a[3], 0, (int)(intptr_t)a[4],",
    "      nullptr);",
    "}",
]

_POOL = [
    _EXPORT + "void* glasshouse_pool(int threads) {",
    "  return new gh::ThreadPool(threads);",
    "}",
    _EXPORT + "void glasshouse_set_threads(void* pool, int threads) {",
    "  ((gh::ThreadPool*)pool)->set_threads(threads);",
    "}",
]
