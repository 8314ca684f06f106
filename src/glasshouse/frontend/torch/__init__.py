"""PyTorch models, exported programs and .pt2 files as graphs.

Ahead of PyTorch's exporter only what it needs is loaded. Its graph is half as large as all the code
that a trace needs, so what turns it into a graph of ours is loaded behind it, into its holes: 4 MB.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from glasshouse.collection import stage_over
from glasshouse.frontend.torch.tracing.capture import capture
from glasshouse.ir.graph import Graph

if TYPE_CHECKING:
    from glasshouse.frontend.torch.opaque_nodes import opaque_ops
    from glasshouse.frontend.torch.program import Captured

__all__ = ["Captured", "capture", "opaque_ops", "trace"]


def __getattr__(name: str) -> Any:
    if name == "Captured":
        from glasshouse.frontend.torch.program import Captured

        return Captured
    if name == "opaque_ops":
        from glasshouse.frontend.torch.opaque_nodes import opaque_ops

        return opaque_ops
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def trace(
    model: Any, inputs: Sequence[Any] = (), keywords: Mapping[str, Any] | None = None
) -> Graph:
    """The graph of a model for arguments like these.

    Keywords are the model's own, besides `dynamic_shapes` (as `torch.export.export` takes them),
    `name`, the graph's, and `partition`: a function that gives each node the name of the partition
    that it belongs to, or None; or "cpu", for what that target has code for and the rest.
    With `freeze=False`, a model that takes another way for other data is refused.
    """
    options = dict(keywords or {})
    shapes, name = options.pop("dynamic_shapes", None), options.pop("name", "")
    partition = options.pop("partition", None)
    freeze = options.pop("freeze", True)
    if inspect.isroutine(model) or isinstance(model, functools.partial):
        from glasshouse.frontend.torch.tracing.function import as_module

        model = as_module(model)
    captured = capture(model, inputs, options, shapes, name, freeze)
    stage_over()
    from glasshouse.frontend.torch.devices import device_of
    from glasshouse.frontend.torch.signature import signature_of
    from glasshouse.frontend.torch.sparse_parts import taken_apart

    graph = captured.graph
    graph.signature = signature_of(
        captured, getattr(model, "forward", None), taken_apart((inputs, options))
    )
    graph.device = device_of(inputs, options)
    if partition is not None:
        from glasshouse.frontend.torch.groups import label_partitions

        label_partitions(graph, partition)
    return graph
