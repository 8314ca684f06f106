"""A summary of a compiled module in a few lines, for people."""

from __future__ import annotations

from glasshouse.lower.program import Call, Fallback
from glasshouse.runtime.module import Module


def summary_of(module: Module) -> str:
    """Kernels, what runs through Python, and memory against what it would be without a plan."""
    program, plan = module.program, module.plan
    calls = sum(isinstance(s, Call) for s in program.steps)
    lines = [f"{calls} calls of {len(program.kernels)} kernels"]
    for step in program.steps:
        if isinstance(step, Fallback):
            lines.append(f"{step.node.op.label} runs through Python: {step.why}")
            lines += [f"  {why}" for why in [module.bodies.uncompiled(step.node)] if why]
    arena, tensors = megabytes(plan.arena_bytes), megabytes(plan.tensor_bytes)
    each = f", {module.num_runtimes} times" if module.num_runtimes > 1 else ""
    lines.append(f"arena: {arena} for tensors of {tensors} in all{each}")
    lines.append(f"constants: {megabytes(module.constant_bytes)} with their packed forms")
    return "\n".join(lines)


def megabytes(count: int) -> str:
    return f"{count / 1e6:.2f} MB"
