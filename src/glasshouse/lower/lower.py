"""Lowers an optimised graph to a program: one kernel for each node, in order.

A node whose ops are all loops becomes one nest. What has a routine of the target (matmul,
convolution, sort ...) becomes a tile: its operands are brought into memory first, and what follows
it stands in its epilogue where the target can. What a target has no code for becomes a `Fallback`,
never an error.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import replace

from glasshouse.errors import Unsupported
from glasshouse.ir.given_sizes import may_give_size
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import CONSTANT
from glasshouse.ir.types import symbols_in
from glasshouse.lower.alike import called_again, likeness
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.expand import APART, FOLDS, expanded
from glasshouse.lower.group import Group, group_of
from glasshouse.lower.kernel.kernel import OPERAND, OUTPUT, Buffer, Kernel
from glasshouse.lower.kernel.shift import counted_from_first_read
from glasshouse.lower.numbers import is_number, is_zero_point
from glasshouse.lower.program import Call, Fallback, Program, Step
from glasshouse.lower.target import Target, TileMaker
from glasshouse.lower.variants import assembled
from glasshouse.ops.cost import bytes_read, bytes_written, operations


def lower(given: Graph | Program, target: Target) -> Program:
    """Kernels and their calls for every node of a graph that computes something.

    What is decided before (layouts, views) stands in the program; a graph has nothing decided.
    """
    program = Program(given) if isinstance(given, Graph) else given
    graph = program.graph
    symbols = symbols_in(v.type for n in graph.nodes for v in n.outputs)
    program = replace(program, steps=[], symbols=tuple(symbols))
    kernels: dict[Kernel, int] = {}
    seen: dict[Hashable, Call] = {}
    for node in graph.nodes:
        if node.op.kind is Kind.SOURCE:
            continue
        if all(0 in v.type.shape for v in node.outputs):
            if may_give_size(node):
                program.steps.append(Fallback(node, "how long its result is depends on data"))
            continue
        if node.outputs[0] in program.aliases:
            continue
        group = group_of(node)
        key = likeness(group, program)
        if key in seen:
            program.steps.append(called_again(seen[key], group))
            continue
        step = lower_group(group, target, program, kernels)
        program.steps.append(step)
        if key is not None and isinstance(step, Call):
            seen[key] = step
    return program


def lower_group(group: Group, target: Target, program: Program, kernels: dict[Kernel, int]) -> Step:
    """The call of a kernel that computes a group; `kernels` numbers those made so far."""
    reason = ""
    for attempt, plain in _ATTEMPTS:
        try:
            builder = _builder(group, target, program, plain)
            attempt(builder)
        except Unsupported as error:
            reason = error.message
            continue
        return _call(group, builder, kernels)
    return Fallback(group.node, reason)


def _builder(
    group: Group, target: Target, program: Program, plain: Collection[str]
) -> KernelBuilder:
    """A builder for a group that knows which operands are constants, and all layouts."""
    body, positions = expanded(group.body, plain, target.shifted_means)
    builder = KernelBuilder(body, target, positions, constant_bytes=program.constant_bytes)
    operands = list(zip(group.operands, body.inputs, strict=True))
    builder.constants = frozenset(v for outer, v in operands if outer.node.op is CONSTANT)
    builder.zeros = frozenset(v for outer, v in operands if is_zero_point(outer))
    for outer, inner in (*operands, *zip(group.node.outputs, body.outputs, strict=True)):
        if outer in program.orders:
            builder.orders[inner] = program.orders[outer]
    return builder


def _fused(builder: KernelBuilder) -> None:
    """Everything in as few nests as the tiles allow."""
    _parameters(builder)
    for node in builder.body.nodes:
        maker = builder.target.tiles.get(node.op.name)
        if maker is not None:
            _add_tile(builder, node, maker)
    builder.finish()


def _one_by_one(builder: KernelBuilder) -> None:
    """Each node by itself, through temporaries: what is left when a group does not fit one nest."""
    _parameters(builder)
    for node in builder.body.nodes:
        if node.op.kind is Kind.SOURCE:
            continue
        maker = builder.target.tiles.get(node.op.name)
        if maker is not None:
            _add_tile(builder, node, maker)
        else:
            for value in node.outputs:
                builder.compute([value])
    builder.finish()


_ATTEMPTS = (
    (_fused, ()), (_one_by_one, ()), (_fused, APART), (_one_by_one, APART), (_one_by_one, FOLDS),
)  # fmt: skip


def _add_tile(builder: KernelBuilder, node: Node, maker: TileMaker) -> None:
    if not all(v in builder.buffers for v in node.outputs):
        maker(builder, node)


def _parameters(builder: KernelBuilder) -> None:
    for i, value in enumerate(builder.body.inputs):
        builder.buffers[value] = f"x{i}"
    for i, value in enumerate(builder.body.outputs):
        if value in builder.buffers:
            raise Unsupported(f"an operand is output {i} as well, and must be copied")
        builder.outputs.setdefault(value, f"y{i}")
    _reshaped_operands(builder)
    for node in builder.body.nodes:
        if node.op is CONSTANT and not is_number(node.output):
            raise Unsupported("a large constant inside of a fused group")


def _reshaped_operands(builder: KernelBuilder) -> None:
    """A reshape of an operand lies where the operand lies: a product reads it there, and a fold
    over several axes together needs no loops that are split."""
    for node in builder.body.nodes:
        if node.op.name != "reshape" or node.output in builder.outputs:
            continue
        source = node.inputs[0]
        if source in builder.buffers and not {source, node.output} & builder.orders.keys():
            builder.buffers[node.output] = builder.buffers[source]
            if source in builder.constants:
                builder.constants |= {node.output}


def _call(group: Group, builder: KernelBuilder, kernels: dict[Kernel, int]) -> Call:
    ops = tuple(n.op.label for n in group.body.nodes if n.op.kind is not Kind.SOURCE)
    kernel = assembled("", _buffers(group, builder), builder.statements, ops)
    offsets: tuple[int, ...] = ()
    if builder.target.shifts:
        kernel, offsets = counted_from_first_read(kernel, builder.target.shifts)
    # Under one name all are compared by content; a kernel's hash walks all of it, so it is asked
    # for once.
    count = len(kernels)
    number = kernels.setdefault(kernel, count)
    return Call(
        replace(kernel, name=f"k{number}_{_word(ops)}"),
        group.node,
        group.operands,
        tuple(group.node.outputs),
        flops=operations(group.node),
        bytes_read=bytes_read(group.node),
        bytes_written=bytes_written(group.node),
        offsets=offsets,
    )


def _buffers(group: Group, builder: KernelBuilder) -> list[Buffer]:
    """Operands and outputs, then temporaries."""
    operands, outputs = group.operands, group.node.outputs
    early = builder.target.early_constants
    out = [
        Buffer(f"x{i}", v.type.dtype, v.type.numel, OPERAND, early and v.node.op is CONSTANT)
        for i, v in enumerate(operands)
    ]
    out += [Buffer(f"y{i}", v.type.dtype, v.type.numel, OUTPUT) for i, v in enumerate(outputs)]
    return [*out, *builder.temporaries]


def _word(ops: tuple[str, ...]) -> str:
    """A short name for people who read the generated code: the first ops, in lower case."""
    shown = [o.lower() for o in ops[:3]]
    return "_".join(shown) + ("" if len(ops) <= 3 else f"_and_{len(ops) - 3}")
