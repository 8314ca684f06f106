"""Glasshouse: a deep-learning compiler that you can see into.

    import glasshouse as gh

Names are loaded when they are first used: importing the package itself takes no time, and nothing
here needs more than NumPy.
"""

# ruff: noqa: I001  # `import x as x` tells type checkers that x is meant for others

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Name -> the module that has it. A new name stands here and, for type checkers, at the end.
_HOMES: dict[str, str] = {
    name: f"glasshouse.{home}"
    for home, names in {
        "api": "compile load set_threads trace",
        "tensor.tensor": "Tensor",
        "tensor.create": "arange array as_tensor eye from_dlpack from_numpy full full_like "
        "linspace ones ones_like rand randint randn zeros zeros_like",
        "tensor.random": "manual_seed",
        "tensor.functions": "concat einsum exp log maximum minimum relu sigmoid softmax sqrt "
        "stack tanh where",
        "tensor.execute": "set_executor sync_all",
        "tensor.grad": "differentiate grad gradients value_and_grad",
        "tensor.state": "enable_grad no_grad",
        "tensor.trace": "Spec spec",
        "tensor.trace_data": "clear_trace_data dump_trace_data flag_scope",
        "frontend.onnx.export": "export_onnx",
        "frontend.torch.tracing.training": "trace_training",
        "ir": "Graph parse_graph symbol",
        "ir.dtype": "bfloat16 float16 float32 float64 int16 int32 int64 int8 uint32 uint64 uint8",
        "passes": "Instrument Pass PassContext optimize register_pass",
        "show.html": "plot_graph",
        "show.view": "view",
    }.items()
    for name in names.split()
}
# Modules that are names of the public surface, and where they are.
_MODULES: dict[str, str] = {
    "distributed": "glasshouse.distributed",
    "errors": "glasshouse.errors",
    "ir": "glasshouse.ir",
    "nn": "glasshouse.nn",
    "ops": "glasshouse.ops",
    "optim": "glasshouse.tensor.optim",
    "passes": "glasshouse.passes",
    "serve": "glasshouse.serve",
}


if os.environ.get("GLASSHOUSE_LOG"):
    import_module("glasshouse.log").configure(os.environ["GLASSHOUSE_LOG"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module 'glasshouse' has no attribute {name!r}")
    from glasshouse.collection import no_full_collection

    with no_full_collection():  # one beside PyTorch's objects takes as long as all our imports
        if name in _HOMES:
            found = getattr(import_module(_HOMES[name]), name)
        else:
            found = import_module(_MODULES[name])
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(["__version__", *_HOMES, *_MODULES])


if TYPE_CHECKING:
    from glasshouse import distributed as distributed
    from glasshouse import errors as errors
    from glasshouse import ir as ir
    from glasshouse import nn as nn
    from glasshouse import ops as ops
    from glasshouse import passes as passes
    from glasshouse import serve as serve
    from glasshouse.tensor import optim as optim
    from glasshouse.api import compile as compile
    from glasshouse.api import load as load
    from glasshouse.api import set_threads as set_threads
    from glasshouse.api import trace as trace
    from glasshouse.frontend.onnx.export import export_onnx as export_onnx
    from glasshouse.frontend.torch.tracing.training import trace_training as trace_training
    from glasshouse.ir import Graph as Graph
    from glasshouse.ir import parse_graph as parse_graph
    from glasshouse.ir import symbol as symbol
    from glasshouse.ir.dtype import bfloat16 as bfloat16
    from glasshouse.ir.dtype import float16 as float16
    from glasshouse.ir.dtype import float32 as float32
    from glasshouse.ir.dtype import float64 as float64
    from glasshouse.ir.dtype import int16 as int16
    from glasshouse.ir.dtype import int32 as int32
    from glasshouse.ir.dtype import int64 as int64
    from glasshouse.ir.dtype import int8 as int8
    from glasshouse.ir.dtype import uint8 as uint8
    from glasshouse.ir.dtype import uint32 as uint32
    from glasshouse.ir.dtype import uint64 as uint64
    from glasshouse.passes import Instrument as Instrument
    from glasshouse.passes import Pass as Pass
    from glasshouse.passes import PassContext as PassContext
    from glasshouse.passes import optimize as optimize
    from glasshouse.passes import register_pass as register_pass
    from glasshouse.show.html import plot_graph as plot_graph
    from glasshouse.show.view import view as view
    from glasshouse.tensor.create import arange as arange
    from glasshouse.tensor.create import array as array
    from glasshouse.tensor.create import as_tensor as as_tensor
    from glasshouse.tensor.create import eye as eye
    from glasshouse.tensor.create import from_dlpack as from_dlpack
    from glasshouse.tensor.create import from_numpy as from_numpy
    from glasshouse.tensor.create import full as full
    from glasshouse.tensor.create import full_like as full_like
    from glasshouse.tensor.create import linspace as linspace
    from glasshouse.tensor.create import ones as ones
    from glasshouse.tensor.create import ones_like as ones_like
    from glasshouse.tensor.create import rand as rand
    from glasshouse.tensor.create import randint as randint
    from glasshouse.tensor.create import randn as randn
    from glasshouse.tensor.create import zeros as zeros
    from glasshouse.tensor.create import zeros_like as zeros_like
    from glasshouse.tensor.execute import set_executor as set_executor
    from glasshouse.tensor.execute import sync_all as sync_all
    from glasshouse.tensor.functions import concat as concat
    from glasshouse.tensor.functions import einsum as einsum
    from glasshouse.tensor.functions import exp as exp
    from glasshouse.tensor.functions import log as log
    from glasshouse.tensor.functions import maximum as maximum
    from glasshouse.tensor.functions import minimum as minimum
    from glasshouse.tensor.functions import relu as relu
    from glasshouse.tensor.functions import sigmoid as sigmoid
    from glasshouse.tensor.functions import softmax as softmax
    from glasshouse.tensor.functions import sqrt as sqrt
    from glasshouse.tensor.functions import stack as stack
    from glasshouse.tensor.functions import tanh as tanh
    from glasshouse.tensor.functions import where as where
    from glasshouse.tensor.grad import differentiate as differentiate
    from glasshouse.tensor.grad import grad as grad
    from glasshouse.tensor.grad import gradients as gradients
    from glasshouse.tensor.grad import value_and_grad as value_and_grad
    from glasshouse.tensor.random import manual_seed as manual_seed
    from glasshouse.tensor.state import enable_grad as enable_grad
    from glasshouse.tensor.state import no_grad as no_grad
    from glasshouse.tensor.tensor import Tensor as Tensor
    from glasshouse.tensor.trace import Spec as Spec
    from glasshouse.tensor.trace import spec as spec
    from glasshouse.tensor.trace_data import clear_trace_data as clear_trace_data
    from glasshouse.tensor.trace_data import dump_trace_data as dump_trace_data
    from glasshouse.tensor.trace_data import flag_scope as flag_scope
