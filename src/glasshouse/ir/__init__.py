"""The graph: nodes, values, types, origins, and the only ways to build and change them."""

from glasshouse.ir.attrs import Attr
from glasshouse.ir.builder import Builder, GraphBuilder
from glasshouse.ir.dim import Dim, SymDim, symbol
from glasshouse.ir.dtype import DType, as_dtype
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind, NoGradient, Op, Operands, op_named
from glasshouse.ir.origin import Frame, Origin, Scope, Source
from glasshouse.ir.parser import parse_graph
from glasshouse.ir.printer import print_graph
from glasshouse.ir.rewriter import Listener, Reject, Rewrite, Rewriter
from glasshouse.ir.sources import CONSTANT, INPUT, VARIABLE
from glasshouse.ir.types import Shape, TensorType, tensor_type
from glasshouse.ir.verify import verify

__all__ = [
    "CONSTANT", "INPUT", "VARIABLE", "Attr", "Builder", "DType", "Dim", "Expr", "Frame", "Graph",
    "GraphBuilder", "Kind", "Listener", "NoGradient", "Node", "Op", "Operands", "Origin", "Reject",
    "Rewrite", "Rewriter", "Scope", "Shape", "Source", "SymDim", "TensorType", "Value", "as_dtype",
    "op_named", "parse_graph", "print_graph", "symbol", "tensor_type", "verify",
]  # fmt: skip
