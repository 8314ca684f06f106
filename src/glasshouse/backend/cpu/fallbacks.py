"""Decides which ops run through Python on purpose, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glasshouse.ir.dtype import float32
from glasshouse.ir.graph import Node
from glasshouse.ir.types import TensorType


@dataclass(frozen=True)
class Fallbacks:
    """Ops without a kernel, each with the reason."""

    reasons: Mapping[str, str]
    images: frozenset[str]  # templates exist for one or two spatial axes of float32

    def covers(self, node: Node) -> bool:
        """Whether a node is meant to run through Python."""
        return node.op.name in self.reasons or (
            node.op.name in self.images and not _has_template(node.inputs[0].type)
        )


FALLBACKS = Fallbacks(
    {
        "opaque": "its meaning is known only to whoever brought it",
        "cond": "its branches are graphs of their own",
        "while_loop": "its body is a graph of its own",
        "scan": "its body is a graph of its own",
        "max_pool_indices": "no template yet",
        "adaptive_max_pool": "no template yet",
        "adaptive_max_pool_indices": "no template yet",
        "adaptive_avg_pool": "parts of different sizes have no template",
        "resize": "no template yet",
        "resize_grad": "no template yet",
    },
    frozenset(
        {
            "conv",
            "conv_transpose",
            "conv_weight_grad",
            "max_pool",
            "max_pool_grad",
            "avg_pool",
            "avg_pool_grad",
        }
    ),
)


def _has_template(image: TensorType) -> bool:
    return image.rank <= 4 and image.dtype is float32
