"""Adds tiles to a kernel: a node of the graph, its operands, and where its results go."""

from __future__ import annotations

from collections.abc import Sequence

from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.choice import Problem
from glasshouse.lower.epilogue import RESULT, Epilogue, take_results
from glasshouse.lower.kernel.statement import Operand, Tile
from glasshouse.lower.order import Order, channels_last
from glasshouse.lower.variants import with_variant
from glasshouse.lower.view import whole


def add_tile(
    builder: KernelBuilder,
    node: Node,
    routine: str,
    operands: Sequence[Operand],
    after: Epilogue | None = None,
    order: Order | None = None,
    writes: tuple[tuple[int, str], ...] = (),
    variants: tuple[str, ...] = (),
    variant: str = "",
    problem: Problem | None = None,
    also: Sequence[Node] = (),
) -> None:
    """The tile of a node, with the usual one among its variants; `also` are nodes around it whose
    ops the routine computes too."""
    made = node.outputs[0].type
    tile = Tile(
        node.op.name,
        routine,
        tuple(node.attrs.items()),
        tuple(operands),
        made.dtype,
        made.shape,
        order,
        after.variables if after is not None else (),
        RESULT if after is not None else "",
        after.statements if after is not None else (),
        writes,
        tuple(sorted({op for n in (node, *also) for op in builder.ops_of(n)})),
        problem,
        variants,
    )
    builder.statements.append(
        with_variant(tile, variants[0] if variants else variant, builder.target)
    )


def add_tile_of_pixels(builder: KernelBuilder, node: Node, routine: str) -> None:
    """The tile of a node over images, channels last, which hands over its results by pixel."""
    out = node.output
    order = channels_last(out.type.rank)
    operands = [whole(builder, v, order) for v in node.inputs]
    channels = out.type.shape[1]
    variables = {"pixel": out.type.numel // channels, "c": channels}
    add_tile(builder, node, routine, operands, take_results(builder, out, variables, order), order)


def write_all(builder: KernelBuilder, node: Node) -> tuple[tuple[int, str], ...]:
    """Whole results into buffers, row-major: one for each output of the node."""
    return tuple((i, builder.place_for(v)) for i, v in enumerate(node.outputs))
