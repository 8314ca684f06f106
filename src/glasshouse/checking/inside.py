"""What each op inside of a kernel costs: copies of the kernel with one op left out, timed in turns.

An op that is left out gives its operand on, or ones where no operand has its type. What it alone
needed goes with it (a bias is no longer read), and what hid behind it shows, so shares need not add
up to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from glasshouse.checking.finding import place
from glasshouse.errors import GlasshouseError, Unsupported, nearest
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import REGISTRY, Kind
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.program import Call
from glasshouse.numerics.widen import Array
from glasshouse.passes import PassContext
from glasshouse.record.titles import full_titles
from glasshouse.runtime.compiler import compile_optimized
from glasshouse.runtime.module import Module
from glasshouse.runtime.turns import order_of, repeats_of
from glasshouse.show.confidence import Ratio, each_end, ratio

Say = Callable[[str], None]


@dataclass(frozen=True)
class OpShare:
    """The kernel without one op."""

    op: str
    where: str
    seconds: float  # the median, without it
    left: Ratio  # of the whole kernel's time
    kernels: int  # that the copy took: more than 1 where the op held it together

    @property
    def share(self) -> float:
        """Of the kernel's time, what leaving the op out saves; below 0: it is slower without."""
        return 1 - self.left.middle


@dataclass(frozen=True)
class KernelShares:
    """One kernel, alone on the values that it reads in the model."""

    kernel: str
    title: str
    seconds: float
    ops: list[OpShare]  # the dearest first
    refused: list[str]


def inside(
    module: Module, name: str, inputs: Sequence[Any], rounds: int = 30, say: Say | None = None
) -> KernelShares:
    """The shares of the ops of one kernel: `name` is its name or title, or a part of these."""
    tell = say or (lambda text: None)
    call, title = _named(module, name)
    node, operands = call.node, _operands(module, call.node, inputs)
    body = node.attrs.get("body")
    ops = [n for n in body.nodes if n.op.kind is not Kind.SOURCE] if isinstance(body, Graph) else []
    if len(ops) < 2:
        raise Unsupported(
            f"{call.kernel.name} computes one op, {node.op.name}: there is nothing to leave out"
        )
    target = module.backend.target.name
    built = [_compiled(_copy(node, None), target)]
    kept: list[Node] = []
    refused: list[str] = []
    for op in ops:
        tell(f"{call.kernel.name} without {op.op.label}")
        try:
            built.append(_compiled(_copy(node, op), target))
            kept.append(op)
        except GlasshouseError as error:
            refused.append(f"{op.op.label}: {error.message}")
    given = [a for a, v in zip(operands, node.inputs, strict=True) if v.node.op is not CONSTANT]
    tell(f"{rounds} turns of {len(built)} programs")
    times = _clocked(built, given, rounds)
    middles = np.median(times, 0)
    sure = each_end(len(kept))
    shares = [
        OpShare(
            op.op.label, place(op), float(middles[i]), ratio(times[:, 0], times[:, i], sure),
            len(built[i].program.steps),
        )
        for i, op in enumerate(kept, 1)
    ]  # fmt: skip
    shares.sort(key=lambda s: -s.share)
    return KernelShares(call.kernel.name, title, float(middles[0]), shares, refused)


def _clocked(built: Sequence[Module], given: Sequence[Array], rounds: int) -> Array:
    """Seconds of the kernels alone, by round and program; all take turns, in changing order."""
    clocks = [np.zeros(len(made.program.steps) + 1) for made in built]
    calls = [partial(made.timed, given, clock) for made, clock in zip(built, clocks, strict=True)]
    repeats = [repeats_of(call) for call in calls]
    out = np.zeros((rounds, len(built)))
    for i in range(rounds):
        for number in order_of(i, len(built)):
            clocks[number][:] = 0
            for _ in range(repeats[number]):
                calls[number]()
            out[i, number] = clocks[number].sum() / repeats[number]
    return out


def _named(module: Module, name: str) -> tuple[Call, str]:
    titles = full_titles(s.node for s in module.program.steps)
    calls = [
        (s, t) for s, t in zip(module.program.steps, titles, strict=True) if isinstance(s, Call)
    ]
    exact = [c for c in calls if name in (c[0].kernel.name, c[1])]
    found = exact or [c for c in calls if name in c[0].kernel.name or name in c[1]]
    if not found:
        known = list(dict.fromkeys(c.kernel.name for c, _ in calls))
        raise Unsupported(f"there is no kernel {name!r}", hint=nearest(name, known, "there are"))
    return found[0]


def _operands(module: Module, node: Node, inputs: Sequence[Any]) -> list[Array]:
    """What the kernel reads in a run of the model."""
    found: list[Array] = []

    def see(step: object, read: Callable[[Value], Array]) -> None:
        if getattr(step, "node", None) is node and not found:
            found.extend(np.array(read(v)) for v in node.inputs)

    with module.unchanged():
        module.watch(module.arguments(inputs), see)
    return found


def _copy(kernel: Node, without: Node | None) -> Graph:
    """The graph of a kernel alone; weights stay constants, so that they are packed as before."""
    body: Graph = kernel.attrs["body"]
    builder = GraphBuilder(kernel.op.name)
    twin: dict[Value, Value] = {}
    for outer, inner in zip(kernel.inputs, body.inputs, strict=True):
        if outer.node.op is CONSTANT:
            made = builder.emit(CONSTANT, (), outer.node.attrs, (outer.type,)).output
        else:
            made = builder.value_of(builder.input(outer.type.dtype, outer.type.shape), None)
        twin[inner] = made
    for node in body.nodes:
        if all(v in twin for v in node.outputs):
            continue
        with builder.at(node.origin):
            if node is without:
                twin |= {v: _instead(builder, node, v, twin) for v in node.outputs}
            else:
                operands = tuple(twin[v] for v in node.inputs)
                copy = builder.emit(node.op, operands, node.attrs, [v.type for v in node.outputs])
                twin.update(zip(node.outputs, copy.outputs, strict=True))
    return builder.finish(*(builder.wrap(twin[v]) for v in body.outputs))


def _instead(builder: GraphBuilder, node: Node, value: Value, twin: dict[Value, Value]) -> Value:
    """What stands for the result of an op that is left out."""
    alike = [twin[v] for v in node.inputs if v.type == value.type]
    if alike:
        return alike[0]
    attrs = {"shape": value.type.shape, "value": 1, "dtype": value.type.dtype}
    return builder.emit(REGISTRY["full"], (), attrs, (value.type,)).output


def _compiled(graph: Graph, target: str) -> Module:
    """Fused as before, and not simplified: what is left must stay."""
    with PassContext(target=target) as ctx:
        ctx.skip("fold_constant", "subgraph_rewrite", "auto_mix_precision", "recompute")
        return compile_optimized(graph, target, tune=False)
