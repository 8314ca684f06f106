"""What a compiled module adds to a recording: kernels with their code, times and errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.backend.base import Limits
from glasshouse.errors import CompilerMissing
from glasshouse.ir.dtype import bfloat16, float16
from glasshouse.lower.group import member_ids
from glasshouse.lower.program import Call
from glasshouse.lower.quant import computes_in
from glasshouse.record.graph_writer import GraphWriter
from glasshouse.record.reader import Recording
from glasshouse.record.recorder import Recorder
from glasshouse.record.schema import CandidateRow, ErrorRow, KernelRow, Text, TimeRow
from glasshouse.record.titles import full_titles
from glasshouse.record.writer import RecordingBuilder
from glasshouse.runtime.account import Account, measure_account
from glasshouse.runtime.accuracy import measure_accuracy
from glasshouse.runtime.buffers import keep_buffers
from glasshouse.runtime.module import Module, step_name
from glasshouse.runtime.values import keep_values


def recording_of(
    module: Module, base: Recording | None, inputs: Sequence[Any] = (), count: int = 10
) -> Recording:
    """The recording of a compilation; with inputs, also the measured times and errors."""
    measured = bool(inputs or not module.graph.inputs)
    if measured:
        module.ready()
    builder = compilation_of(module, base, _limits(module, measured))
    if measured:
        _measure(module, inputs, count, builder.graphs[0], builder)
    return builder.finish()


def _limits(module: Module, measure: bool) -> Limits | None:
    try:
        return module.backend.limits(measure, module.threads)
    except CompilerMissing:
        return None  # the module was built elsewhere and loaded


def compilation_of(
    module: Module, base: Recording | None, limits: Limits | None = None
) -> RecordingBuilder:
    """What the passes did, and the kernels with their code; a loaded module's has them already."""
    if base is None:
        recorder = Recorder(module.graph.name or "model")
        recorder.begin(module.graph, "compiled")
        base = recorder.finish()
    builder = RecordingBuilder.of(base)
    owner = builder.graphs[0]
    if base.graphs[0].table(KernelRow).rows:
        return builder
    titles = full_titles(step.node for step in module.program.steps)
    target = module.backend.target
    for number, step in enumerate(module.program.steps):
        if isinstance(step, Call):
            owner.add(_kernel_row(number, step, module, titles[number], limits))
            for choice in (*step.choices, *target.alternatives(step, target)):
                for c in choice.candidates:
                    owner.add(CandidateRow(number, c.name, c.seconds, c.name == choice.name, c.why))
        else:
            told = [step.why, module.bodies.uncompiled(step.node)]
            reason = Text("\n".join(f"// {line}" for line in told if line))
            name = f"fallback_{step.node.op.name}"
            ids = list(member_ids(step.node))
            owner.add(
                KernelRow(
                    number, name, step.node.id, ids, module.runner_of(step.node), "fallback",
                    reason, title=titles[number],
                )
            )  # fmt: skip
    keep_buffers(module.program, owner)
    if limits is not None:
        for dtype, figure in limits.compute.items():
            builder.facts[f"limit {dtype}"] = f"{figure / 1e9:.4g} GFLOP/s"
        builder.facts["limit read"] = f"{limits.read / 1e9:.4g} GB/s"
        if not limits.sure:
            builder.facts["limits"] = "measured while the machine was busy: too low"
        builder.facts["limit copy"] = f"{limits.copy / 1e9:.4g} GB/s"
    builder.facts["kernels"] = str(len(module.program.kernels))
    builder.facts["arena bytes"] = str(module.plan.arena_bytes)
    builder.facts["workspace bytes"] = str(module.plan.arena_bytes - module.plan.work_offset)
    builder.facts["tensor bytes"] = str(module.plan.tensor_bytes)
    return builder


def _kernel_row(
    number: int, call: Call, module: Module, title: str, limits: Limits | None
) -> KernelRow:
    moved = float(call.bytes_read + call.bytes_written)
    least = 0.0 if limits is None else limits.seconds(float(call.flops), moved, _computed_in(call))
    return KernelRow(
        number, call.kernel.name, call.node.id, list(member_ids(call.node)),
        module.backend.target.name, call.kernel.variant,
        Text(module.source.kernels[call.kernel.name]), module.source.language,
        bytes_read=float(call.bytes_read), bytes_written=float(call.bytes_written),
        flops=float(call.flops), limit_seconds=least, title=title,
    )  # fmt: skip


def _add_gaps(module: Module, account: Account, owner: GraphWriter) -> int:
    """Where a device did nothing before a step: seconds, behind the steps of the program. Gives the
    number of the next row."""
    steps = module.program.steps
    number = len(steps)
    for step, seconds in zip(steps, account.middle(account.gaps), strict=True):
        if seconds > 0.0:
            row = KernelRow(
                number, "gap", step.node.id, [], "gap", "gap",
                Text(f"// nothing runs before {step_name(step)}"),
                title=f"gap before {step.node.op.label}",
            )  # fmt: skip
            owner.add(row)
            owner.add(TimeRow("profile", step.node.id, float(seconds), kernel=number))
            number += 1
    return number


def _add_copies(module: Module, owner: GraphWriter, number: int) -> None:
    """Copies between a device and the host, around steps that the host runs: what they are, bytes
    and seconds, as rows from `number` on."""
    steps = module.program.steps
    for step, copies in sorted(module.host_copies().items()):
        node = steps[step].node
        for copy in copies:
            name = "copy_to_host" if copy.to_host else "copy_to_device"
            told = f"// {name.replace('_', ' ')}, for {node.op.label}, which the host runs"
            owner.add(
                KernelRow(
                    number, name, node.id, [], "copy", "copy", Text(told),
                    bytes_read=float(copy.bytes), bytes_written=float(copy.bytes),
                    title=f"{name.replace('_', ' ')} for {node.op.label}",
                )
            )  # fmt: skip
            owner.add(TimeRow("profile", node.id, copy.seconds, kernel=number))
            number += 1


def _computed_in(call: Call) -> str:
    """The element type of a kernel's products."""
    bytes_ = computes_in(call.kernel.variant)
    if bytes_:
        return bytes_
    first = call.operands[0].type.dtype if call.operands else None
    return first.name if first in (bfloat16, float16) else "float32"


def _measure(
    module: Module,
    inputs: Sequence[Any],
    count: int,
    owner: GraphWriter,
    builder: RecordingBuilder,
) -> None:
    """Times by kernel with the account of a call, errors by pass and by kernel, values."""
    account = measure_account(module, inputs, count)
    for number, t in enumerate(account.kernel_times()):
        owner.add(TimeRow("profile", t.node.id, t.seconds, kernel=number, spread=t.spread))
    _add_copies(module, owner, _add_gaps(module, account, owner))
    builder.facts.update(module.backend.facts(module.threads))
    builder.facts.update(account.facts())
    builder.facts.update(module.settled())
    inputs = module.on_host(inputs)
    measured = measure_accuracy(module, inputs)
    builder.facts["errors against"] = measured.against
    for s in measured.stages:
        owner.add(
            ErrorRow(
                s.stage, s.place[0], s.place[1], s.found.max_abs, s.found.max_rel, s.error, 0.0,
                s.tolerance, wrong=s.found.wrong, at=list(s.found.at) if s.found.wrong else [],
            )
        )  # fmt: skip
    stage = owner.current_stage()
    for e in measured.kernels:
        owner.add(
            ErrorRow(
                stage, e.node.id, e.port, e.max_abs, e.max_rel, e.own, e.inherited, e.tolerance,
                wrong=e.wrong, at=list(e.at),
            )
        )  # fmt: skip
    if measured.first is not None:
        builder.facts["first wrong"] = f"first {measured.first}"
    if measured.own_nan is not None:
        builder.facts["NaN of the model"] = f"first {measured.own_nan}; float64 gives it, too"
    keep_values(module, inputs, owner)
