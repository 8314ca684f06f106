"""The C++ of a whole program: a function for each kernel, and one that calls them all.

Data reaches the code through one table of pointers (inputs, outputs, constants, variables, packed
weights, values of fallbacks) and one arena for all in between; `MemoryPlan` has the offsets.
"""

from __future__ import annotations

from collections.abc import Mapping

from glasshouse.backend.base import GeneratedSource
from glasshouse.backend.cpu.headers import include_apart
from glasshouse.backend.cpu.recipe import CpuSource
from glasshouse.backend.cpu.render import KernelFunction, form_bytes, form_text, render
from glasshouse.backend.cpu.routines import FORMS
from glasshouse.backend.cxx.words import C_TYPE
from glasshouse.ir.graph import Value
from glasshouse.lower.plan import MemoryPlan
from glasshouse.lower.program import Call, Fallback, Program

_EXPORT = 'extern "C" __attribute__((visibility("default"))) '
_HEAD = '#include "glasshouse/kernels.h"\n'
PROGRAM_HEAD = '#include "glasshouse/program.h"\n'
"""In the main file of a program that is linked with `program.cpp`."""


def emit(program: Program) -> GeneratedSource:
    """The files of a decided program."""
    functions = {k.name: render(k, program.symbols) for k in program.kernels}
    return CpuSource(
        {name: kernel_source(f) for name, f in functions.items()},
        _main(program, program.memory, functions),
        {n: (*((),) * _lines_above(f), *f.lines) for n, f in functions.items()},
        recipes={name: f.recipe for name, f in functions.items()},
    )


def kernel_source(function: KernelFunction) -> str:
    """One kernel as a file; the ops that it computes stand above it.

    It is named after its content and weak: objects built for other programs may hold it as well.
    """
    head = _HEAD + include_apart(function.recipe.headers)
    head += f"// {' '.join(function.labels)}\n__attribute__((weak)) "
    return f"{head}void {function.symbol}{function.text}\n"


def _lines_above(function: KernelFunction) -> int:
    """Of a kernel's file, before the line with its parameters: headers and the names of ops."""
    return 2 + len(function.recipe.headers)


def _main(program: Program, plan: MemoryPlan, functions: Mapping[str, KernelFunction]) -> str:
    """Calls of kernels need declarations alone; whoever packs weights needs the templates."""
    apart = [FORMS[packed.form.kind].header for packed in plan.packed]
    head = _HEAD + include_apart(name for name in apart if name) if plan.packed else ""
    lines = [head + PROGRAM_HEAD]
    lines += dict.fromkeys(f"void {f.symbol}({f.parameters});" for f in functions.values())
    packs: dict[str, str] = {}
    for packed in plan.packed:
        packs.setdefault(form_text(packed.form), f"pack{len(packs)}")
    lines += [f"static void {name}{text}" for text, name in packs.items()]
    lines += _packed_sizes(plan)
    lines += _prepare(plan, packs)
    lines += _steps(program, plan, functions)
    return "\n".join(lines) + "\n"


def _packed_sizes(plan: MemoryPlan) -> list[str]:
    """Tells how many bytes each packed constant takes on this machine."""
    lines = [_EXPORT + "int64_t glasshouse_packed_bytes(int place) {"]
    lines.append("  switch (place) {")
    lines += [
        f"    case {place}: return {form_bytes(packed.form)};"
        for packed, place in plan.packed.items()
    ]
    return [*lines, "  }", "  return 0;", "}"]


def _prepare(plan: MemoryPlan, packs: Mapping[str, str]) -> list[str]:
    """Brings constants into the form that kernels want; one without a place to go to is left."""
    lines = [
        _EXPORT + "void glasshouse_prepare(void* pool, void* const* table) {",
        "  gh::ThreadPool& threads = *(gh::ThreadPool*)pool;",
        "  (void)threads; (void)table;",
    ]
    for packed, place in plan.packed.items():
        ctype = C_TYPE[packed.source.type.dtype]
        source = plan.table[packed.source]
        given = f"threads, (const {ctype}*)table[{source}], table[{place}]"
        lines.append(f"  if (table[{place}]) {packs[form_text(packed.form)]}({given});")
    return [*lines, "}"]


def _steps(
    program: Program, plan: MemoryPlan, functions: Mapping[str, KernelFunction]
) -> list[str]:
    """Segments end at fallbacks; `from` and `to` count steps.

    A step's time begins where that of the step before it ended: nothing lies between them, and a
    clock is read once a step.
    """
    lines = [
        'extern "C" int glasshouse_steps(',
        "    gh::Context& ctx, const int* fault, void* const* table, char* arena,",
        "    const int64_t* sizes, int from, int to, double* times) {",
        f"  char* work = arena + {plan.work_offset};",
        "  (void)work; (void)sizes; (void)table;",
        "  double before = times ? glasshouse_seconds() : 0;",
        "  for (int step = from; step < to; ++step) {",
        "    switch (step) {",
    ]
    for number, step in enumerate(program.steps):
        if isinstance(step, Fallback):
            continue
        function = functions[step.kernel.name]
        given = ", ".join([_arguments(step, program, plan), *function.numbers])
        lines.append(f"      case {number}: {function.symbol}({given}); break;")
    lines += [
        "    }",
        # Later steps would write over variables. Negative: a division by zero.
        "    const int bad = __atomic_load_n(fault, __ATOMIC_RELAXED);",
        "    if (bad) return bad * (step + 1);",
        "    if (!times) continue;",
        "    const double now = glasshouse_seconds();",
        "    times[step] += now - before;",
        "    before = now;",
        "  }",
        "  return 0;",
        "}",
    ]
    return lines


def _arguments(call: Call, program: Program, plan: MemoryPlan) -> str:
    arguments = ["ctx", "work", "sizes"]
    arguments += [_pointer(v, "const ", program, plan, at) for v, at in call.starts()]
    arguments += [f"table[{plan.packed[packed]}]" for packed in call.packed]
    arguments += [_pointer(v, "", program, plan) for v in call.outputs]
    return ", ".join(arguments)


def _pointer(value: Value, const: str, program: Program, plan: MemoryPlan, start: int = 0) -> str:
    """The address of a value, `start` bytes behind its beginning."""
    ctype = C_TYPE[value.type.dtype]
    value = value if value in plan.table else program.buffer_of(value)
    if value in plan.table:
        at = f"table[{plan.table[value]}]"
        return f"({const}{ctype}*)" + (f"((char*){at} + {start})" if start else at)
    return f"({const}{ctype}*)(arena + {plan.arena[value] + start})"
