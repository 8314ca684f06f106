"""The interpreter as a target: every op that is no loop is a tile of its own, whole to whole."""

from __future__ import annotations

from glasshouse.ir.graph import Node
from glasshouse.ir.op import REGISTRY, Kind
from glasshouse.lower.access import ACCESS
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.expand import EXPANSIONS
from glasshouse.lower.kernel.verify import FOLDS
from glasshouse.lower.target import Target
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole


def reference_tile(builder: KernelBuilder, node: Node) -> None:
    """Add an op as its NumPy meaning, from memory to memory."""
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, "reference", operands, writes=write_all(builder, node))


FALLBACKS = {
    "opaque": "its meaning is known only to whoever brought it",
    "cond": "Python chooses between its branches",
    "while_loop": "Python goes round",
    "scan": "Python goes round",
}

_ELEMENTWISE = frozenset(
    n for n, op in REGISTRY.items() if op.kind is Kind.ELEMENTWISE and n not in EXPANSIONS
)
_IN_LOOPS = {*_ELEMENTWISE, *FOLDS, *ACCESS, *EXPANSIONS, *FALLBACKS, "fused"}

INTERP = Target(
    "interp",
    cores=1,
    operations=1e8,
    bandwidth=1e9,
    launch=1e-4,
    elementwise=_ELEMENTWISE,
    folds=FOLDS,
    tiles={
        name: reference_tile
        for name, op in REGISTRY.items()
        if op.kind is not Kind.SOURCE and (name not in _IN_LOOPS or name == "adaptive_avg_pool")
    },
    needs=lambda tile: ((), ()),
    cuts=True,
    shifts=1,
    fallbacks=FALLBACKS,
)
