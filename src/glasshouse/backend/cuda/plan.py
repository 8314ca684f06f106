"""A rendered program as data: kernels, launches and where arguments lie, for JSON and back.

What a GPU runs is read from here alone, by Python and by C programs: `{"arch", "symbols",
"kernels": {name: {"symbols", "launches"}}, "steps": [[number, kernel, places]], "forms"}`. A place
is ["table", i], ["table", i, bytes] for so many behind that pointer, ["arena", offset], or
["unread", 0] for a constant that is read in another form alone; sizes are as `sizes.py` has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from glasshouse.backend.cuda.launch import CudaKernel, launch_json
from glasshouse.ir.graph import Value
from glasshouse.lower.plan import MemoryPlan
from glasshouse.lower.program import Call, Program


def program_text(program: Program, kernels: Mapping[str, CudaKernel], arch: str) -> str:
    """The plan of a program as JSON, a line for each kernel and step."""
    plan = program.memory
    described = {
        name: {
            "symbols": list(kernel.symbols),
            "launches": [launch_json(x) for x in kernel.launches],
        }
        for name, kernel in kernels.items()
    }  # fmt: skip
    steps = [
        [number, step.kernel.name, _arguments(step, program, plan)]
        for number, step in enumerate(program.steps)
        if isinstance(step, Call)
    ]
    forms = [
        [
            place, plan.table[packed.source], packed.form.kind, packed.form.dtype.name,
            list(packed.form.attrs),
        ]
        for packed, place in plan.packed.items()
    ]  # fmt: skip
    lines = [f'{{"arch": {json.dumps(arch)},', f'"symbols": {json.dumps(_names(program))},']
    lines += [f'"places": {max(plan.table_size, 1)}, "work": {plan.work_offset},', '"kernels": {']
    lines.append(",\n".join(f"{json.dumps(n)}: {json.dumps(k)}" for n, k in described.items()))
    lines += ["},", '"steps": [', ",\n".join(map(json.dumps, steps)), "],"]
    lines += ['"forms": [', ",\n".join(map(json.dumps, forms)), "]}"]
    return "\n".join(lines) + "\n"


def _names(program: Program) -> list[str]:
    return [s.name for s in program.symbols]


def _arguments(call: Call, program: Program, plan: MemoryPlan) -> list[list[Any]]:
    out: list[list[Any]] = []
    others = {form.buffer for form in call.kernel.forms}
    for number, (operand, begin) in enumerate(call.starts()):
        unread = f"x{number}" in others
        out.append(["unread", 0] if unread else _place(operand, program, plan, begin))
    out += [["table", plan.packed[form]] for form in call.packed]
    return out + [_place(v, program, plan) for v in call.outputs]


def _place(value: Value, program: Program, plan: MemoryPlan, begin: int = 0) -> list[Any]:
    """Where a value lies, or so many bytes behind it."""
    value = value if value in plan.table else program.buffer_of(value)
    if value in plan.table:
        return ["table", plan.table[value], *([begin] if begin else [])]
    return ["arena", plan.arena[value] + begin]
