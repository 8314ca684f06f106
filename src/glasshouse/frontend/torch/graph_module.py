"""How a `torch.fx.GraphModule` of ATen ops becomes a graph, as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from glasshouse.frontend.torch.dims import Symbols, mended
from glasshouse.frontend.torch.memory import storage_of
from glasshouse.frontend.torch.program import Assembler, Captured, written_storages
from glasshouse.frontend.torch.source import Sources
from glasshouse.frontend.torch.stacks import calling_line
from glasshouse.ir.dim import SymDim


def is_aten(module: fx.GraphModule) -> bool:
    """Whether all calls are ops with known types, as `make_fx` and AOTAutograd leave them."""
    for node in module.graph.nodes:
        if node.op in ("call_module", "call_method"):
            return False
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            if "val" not in node.meta:
                return False
        elif node.op == "call_function" and getattr(node.target, "__module__", "") == "torch":
            return False
    return True


def import_graph_module(
    module: fx.GraphModule,
    examples: Sequence[Any] = (),
    name: str = "",
    weights: Mapping[int, tuple[torch.Tensor, str]] | None = None,
    model: torch.nn.Module | None = None,
    views_by_schema: bool = False,
    phase: str = "",
) -> Captured:
    """The graph of a module of ATen ops; `weights` are inputs (by number) that are held fixed, and
    `model` is what it was captured from, if that is known. `phase` is "forward" or "backward" where
    a step of training is two graphs.

    Numbers among the inputs are taken as they are in `examples`. A symbol that no tensor's shape
    determines becomes an input that is nothing but its shape.
    """
    labels = (("phase", phase),) if phase else ()
    sources = Sources(model or module, labels=labels, called=calling_line())
    assembler = Assembler(Symbols(mended(_ranges(module), module.graph)), sources, name)
    assembler.importer.views_by_schema = views_by_schema
    changing = written_storages(module)
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    bare: dict[str, int] = {}
    shaped: set[str] = set()
    inputs: list[Any] = []
    for number, node in enumerate(placeholders):
        example = examples[number] if number < len(examples) else None
        val = node.meta.get("val", example)
        if weights is not None and number in weights:
            tensor, label = weights[number]
            inputs.append(assembler.weight(tensor, label, storage_of(val) in changing))
        elif isinstance(val, torch.Tensor):
            with assembler.builder.at(assembler.importer.sources.origin(node)):
                slot = assembler.input(val, node.name, number)
            shaped.update(str(d) for d in slot.read().shape if isinstance(d, SymDim))
            inputs.append(slot)
        elif isinstance(val, torch.SymInt):
            size = assembler.symbols.dim(val)
            if isinstance(size, SymDim):
                bare.setdefault(str(size), number)
            inputs.append(size)
        else:
            inputs.append(val)
    for name_of_size, number in bare.items():
        if name_of_size not in shaped:
            assembler.size(inputs[number], number)
    results = assembler.importer.run(module, inputs)
    flat, spec = pytree.tree_flatten(results, is_leaf=lambda r: r is None)
    assembler.captured.out_spec = spec
    return assembler.finish(flat, _names(module, len(flat)))


def _ranges(module: fx.GraphModule) -> dict[Any, Any]:
    """What PyTorch knows of each symbol, from the first symbolic size that is met."""
    for node in module.graph.nodes:
        val = node.meta.get("val", node.meta.get("example_value"))
        for size in getattr(val, "shape", ()) if isinstance(val, torch.Tensor) else (val,):
            if isinstance(size, torch.SymInt):
                found: dict[Any, Any] = dict(size.node.shape_env.var_to_range)
                return found
    return {}


def _names(module: fx.GraphModule, count: int) -> list[str]:
    output = next(n for n in module.graph.nodes if n.op == "output")
    given = pytree.tree_leaves(output.args[0], is_leaf=lambda r: r is None)
    names = [g.name if isinstance(g, fx.Node) else f"output_{i}" for i, g in enumerate(given)]
    return names if len(names) == count else [f"output_{i}" for i in range(count)]
