"""Names in what Dynamo captures, as the user knows them: of weights, and of modules.

Dynamo says where it found a thing (`L['self']._modules['layer']._parameters['weight']`); the user
calls it `layer.weight`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensor

from glasshouse.frontend.torch.memory import storage_of
from glasshouse.frontend.torch.program import written_storages

_ROOT = re.compile(r"^L\['\w+'\]|^G\['\w+'\]")
_STEP = re.compile(
    r"\.?_(?:modules|parameters|buffers)\['([^']+)'\]|\.(\w+)|\[(\d+)\]|\['([^']+)'\]"
)


def plain(source: str) -> str:
    """`layer.weight`, from where Dynamo found it."""
    rest = _ROOT.sub("", source)
    steps = [next(part for part in found if part) for found in _STEP.findall(rest)]
    return ".".join(steps)


def weight_names(nodes: Sequence[Any], examples: Sequence[Any], graph: Any) -> dict[int, str]:
    """The arguments that are parameters and buffers which the graph does not write to, by number.

    They are the same in most calls; `held` notices when they are not.
    """
    out: dict[int, str] = {}
    inside = [n for n in graph.graph.nodes if n.op == "placeholder"]
    written = written_storages(graph)
    for number, (node, example) in enumerate(zip(nodes, examples, strict=True)):
        if not is_weight(example) or storage_of(inside[number].meta.get("val")) in written:
            continue
        name = source_name(node)
        out[number] = name if name not in out.values() else f"{name}_{number}"
    return out


def source_name(node: Any) -> str:
    """What the user calls an argument of Dynamo's graph."""
    source = getattr(getattr(node.meta.get("grapharg"), "source", None), "name", "")
    return plain(source() if callable(source) else str(source)) or str(node.name)


def is_weight(example: Any) -> bool:
    """Whether an argument is a parameter or a buffer in memory that can be held."""
    static = hasattr(example, "_dynamo_static_input_type") or type(example) is torch.nn.Parameter
    if not static or not isinstance(example, torch.Tensor) or isinstance(example, FakeTensor):
        return False
    kind = type(example) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return kind and example.layout is torch.strided and example.device.type in ("cpu", "cuda")


def own_paths(graph: Any) -> None:
    """Let nodes say which modules they come from by the names that the user gave."""
    seen: dict[int, dict[str, tuple[str, Any]]] = {}
    for node in graph.graph.nodes:
        for key in ("nn_module_stack", "fwd_nn_module_stack"):
            stack = node.meta.get(key)
            if stack:
                if id(stack) not in seen:
                    seen[id(stack)] = {k: (plain(p), c) for k, (p, c) in stack.items()}
                node.meta[key] = seen[id(stack)]
