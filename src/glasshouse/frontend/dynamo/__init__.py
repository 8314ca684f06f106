"""`torch.compile(model, backend="glasshouse")`: the graphs that Dynamo captures, compiled."""

from glasshouse.frontend.dynamo.entry import Compiled, backend, compiled_graphs, reset

__all__ = ["Compiled", "backend", "compiled_graphs", "reset"]
