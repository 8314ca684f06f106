"""`hidet.graph`: modules, ops and passes."""

from glasshouse.compat.hidet.device import Tensor
from glasshouse.compat.hidet.graph import nn, ops
from glasshouse.compat.hidet.graph.flow_graph import FlowGraph
from glasshouse.compat.hidet.graph.optimize import PassContext, optimize
from glasshouse.compat.missing import names_what_is_there

__all__ = ["FlowGraph", "PassContext", "Tensor", "nn", "ops", "optimize"]
__getattr__ = names_what_is_there("hidet.graph", __all__)
