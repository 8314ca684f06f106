"""Decides how an optimised graph becomes a program: one kernel for each node, in order.

A node whose ops are all loops becomes one nest. An anchor (matmul, convolution, sort ...) is
written by the target: its operands are brought into memory first, and what follows it is inlined
where the target can. What a target has no code for becomes a `Fallback`, never an error.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Symbol, SymDim, symbols_of
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.alike import called_again, likeness
from glasshouse.lower.cxx import C_TYPE, symbol_name
from glasshouse.lower.expand import expanded
from glasshouse.lower.group import Group, group_of
from glasshouse.lower.program import Call, Fallback, Kernel, Program, Step
from glasshouse.lower.target import Anchor, Target
from glasshouse.lower.writer import KernelWriter, is_number, is_zero_point
from glasshouse.ops.cost import bytes_read, bytes_written, operations


def lower(given: Graph | Program, target: Target) -> Program:
    """Kernels and their calls for every node of a graph that computes something.

    What is decided before (layouts, views) stands in the program; a graph has nothing decided.
    """
    program = Program(given) if isinstance(given, Graph) else given
    graph = program.graph
    program = replace(program, steps=[], symbols=_symbols(graph))
    names: dict[str, Kernel] = {}
    seen: dict[Hashable, tuple[Call, Group]] = {}
    for node in graph.nodes:
        if node.op.kind is Kind.SOURCE or all(0 in v.type.shape for v in node.outputs):
            continue
        if node.outputs[0] in program.aliases:
            continue
        group = group_of(node)
        key = likeness(group, program)
        if key in seen:
            call, twin = seen[key]
            program.steps.append(called_again(call, twin.operands, group))
            continue
        step = lower_group(group, target, program, names)
        program.steps.append(step)
        if key is not None and isinstance(step, Call):
            seen[key] = step, group
    return program


def lower_group(group: Group, target: Target, program: Program, kernels: dict[str, Kernel]) -> Step:
    """The call of a kernel that computes a group; `kernels` holds those made so far, by text."""
    reason = ""
    for attempt, plain in ((_fused, False), (_one_by_one, False), (_one_by_one, True)):
        try:
            writer = _writer(group, target, program, plain)
            attempt(writer)
        except Unsupported as error:
            reason = error.message
            continue
        return _call(group, writer, program.symbols, kernels)
    return Fallback(group.node, reason)


def _writer(group: Group, target: Target, program: Program, plain: bool) -> KernelWriter:
    """A writer for a group that knows which operands are constants and how everything lies."""
    body = expanded(group.body, plain)
    writer = KernelWriter(body, target, choose=program.choose)
    operands = list(zip(group.operands, body.inputs, strict=True))
    writer.constants = frozenset(v for outer, v in operands if outer.node.op is CONSTANT)
    writer.zeros = frozenset(v for outer, v in operands if is_zero_point(outer))
    for outer, inner in (*operands, *zip(group.node.outputs, body.outputs, strict=True)):
        if outer in program.orders:
            writer.orders[inner] = program.orders[outer]
    return writer


def _fused(writer: KernelWriter) -> None:
    """Everything in as few nests as the anchors allow."""
    _parameters(writer)
    for node in writer.body.nodes:
        anchor = writer.target.anchors.get(node.op.name)
        if anchor is not None:
            _write_anchor(writer, node, anchor)
    writer.finish()


def _one_by_one(writer: KernelWriter) -> None:
    """Each node by itself, through temporaries: what is left when a group does not fit one nest."""
    _parameters(writer)
    for node in writer.body.nodes:
        if node.op.kind is Kind.SOURCE:
            continue
        anchor = writer.target.anchors.get(node.op.name)
        if anchor is not None:
            _write_anchor(writer, node, anchor)
        else:
            for value in node.outputs:
                writer.compute([value])
    writer.finish()


def _write_anchor(writer: KernelWriter, node: Node, anchor: Anchor) -> None:
    if not all(v in writer.buffers for v in node.outputs):
        writer.variant = node.op.name
        anchor(writer, node)


def _parameters(writer: KernelWriter) -> None:
    for i, value in enumerate(writer.body.inputs):
        writer.buffers[value] = f"x{i}"
    for i, value in enumerate(writer.body.outputs):
        if value in writer.buffers:  # an operand that is an output as well: copied
            name = writer.buffers[value]
            size = f"sizeof({C_TYPE[value.type.dtype]})"
            raise Unsupported(f"{name} is copied to y{i} ({size} each)")
        writer.outputs.setdefault(value, f"y{i}")
    for node in writer.body.nodes:
        if node.op is CONSTANT and not is_number(node.output):
            raise Unsupported("a large constant inside of a fused group")


def _call(
    group: Group, writer: KernelWriter, symbols: tuple[Symbol, ...], kernels: dict[str, Kernel]
) -> Call:
    body = writer.body
    parameters = ["gh::Context& ctx", "char* work", "const int64_t* sizes"]
    parameters += [f"const {C_TYPE[v.type.dtype]}* x{i}" for i, v in enumerate(body.inputs)]
    parameters += [f"const void* {name}" for _, name in writer.packed]
    parameters += [f"{C_TYPE[v.type.dtype]}* y{i}" for i, v in enumerate(body.outputs)]
    bound = [f"  const int64_t {symbol_name(s.name)} = sizes[{i}];" for i, s in enumerate(symbols)]
    used = [line for line in bound if any(line.split()[2] in text for text in writer.lines)]
    text = "\n".join([f"({', '.join(parameters)}) {{", *used, *writer.lines, "}"])
    ops = tuple(n.op.label for n in group.body.nodes if n.op.kind is not Kind.SOURCE)
    kernel = kernels.get(text)
    if kernel is None:
        kernel = Kernel(f"k{len(kernels)}_{_word(ops)}", text, ops, writer.variant)
        kernels[text] = kernel
    outer = dict(zip(group.body.inputs, group.operands, strict=True))
    by_position = dict(zip(body.inputs, group.body.inputs, strict=True))
    packed = [type(p)(outer[by_position[p.source]], p.text, p.nbytes) for p, _ in writer.packed]
    return Call(
        kernel,
        group.node,
        (*group.operands, *packed),
        tuple(group.node.outputs),
        workspace=writer.workspace,
        flops=operations(group.node),
        bytes_read=bytes_read(group.node),
        bytes_written=bytes_written(group.node),
        choices=tuple(writer.choices),
    )


def _word(ops: tuple[str, ...]) -> str:
    """A short name for people who read the generated code: the first ops, in lower case."""
    shown = [o.lower() for o in ops[:3]]
    return "_".join(shown) + ("" if len(ops) <= 3 else f"_and_{len(ops) - 3}")


def _symbols(graph: Graph) -> tuple[Symbol, ...]:
    found: dict[str, Symbol] = {}
    for node in graph.nodes:
        for value in node.outputs:
            for dim in value.type.shape:
                if isinstance(dim, SymDim):
                    found.update(symbols_of(dim))
    return tuple(found[name] for name in sorted(found))
