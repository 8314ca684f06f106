"""Replaces calls in a graph that Dynamo captured, before anything is traced out of it."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from torch import fx


def replace_calls(
    module: fx.GraphModule, targets: Container[Any], replace: Callable[[fx.Node], bool]
) -> None:
    """Show `replace` each call of one of the targets, in graphs inside of the graph too (a
    checkpoint's body, a branch); it says whether it changed the call."""
    for part in module.modules():
        if not isinstance(part, fx.GraphModule):
            continue
        changed = False
        for node in part.graph.nodes:
            if node.op == "call_function" and node.target in targets:
                changed |= replace(node)
        if changed:
            part.recompile()
