"""How targets, types and arguments of fx nodes are spelled in a recording."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import torch

MAX_TEXT = 2_000


# A program has a hundred thousand nodes and a few dozen targets.
@functools.lru_cache(maxsize=4096)
def op_name(target: Any) -> str:
    """ "aten.add.Tensor": the name of an overload, also inside ExecuTorch's edge dialect."""
    if isinstance(target, str):
        return target
    inner = getattr(target, "_op", None)  # the overload that an edge op stands for
    if isinstance(inner, torch._ops.OpOverload):
        target = inner
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    name = getattr(target, "_name", None) or getattr(target, "__name__", None)
    return str(name if isinstance(name, str) else target)


@functools.lru_cache(maxsize=4096)
def argument_names(target: Any) -> tuple[str, ...]:
    """Names of an op's arguments by its schema; () where it has none."""
    schema = getattr(target, "_schema", None) or getattr(
        getattr(target, "_op", None), "_schema", None
    )
    return tuple(a.name for a in schema.arguments) if schema is not None else ()


def types_of(value: Any) -> list[str]:
    """One type for each result: "float32[s77, 4]", "int s77"."""
    if isinstance(value, (list, tuple)):
        return [_type(v) for v in value]
    return [] if value is None else [_type(value)]


def _type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(str(s) for s in value.shape)
        return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"
    for kind, classes in (("bool", (bool, torch.SymBool)), ("int", (int, torch.SymInt)),
                          ("float", (float, torch.SymFloat))):  # fmt: skip
        if isinstance(value, classes):
            return f"{kind} {value}"
    return "" if value is None else type(value).__name__


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The fx nodes inside an argument, in order, with the operand's name: ("tensors[1]", node)."""
    waiting = [(name, value)]
    while waiting:
        at, one = waiting.pop()
        if isinstance(one, torch.fx.Node):
            yield at, one
        elif isinstance(one, (list, tuple)):
            waiting += [(f"{at}[{i}]", v) for i, v in reversed(list(enumerate(one)))]
        elif isinstance(one, Mapping):
            waiting += [(f"{at}.{k}", v) for k, v in reversed(list(one.items()))]


def text(value: Any) -> str:
    """An argument as people write it, cut where it is very long."""
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        said = f"[{', '.join(str(v) for v in value[:500])}{', ...' if len(value) > 500 else ''}]"
    else:
        said = str(value)
    return said if len(said) <= MAX_TEXT else said[:MAX_TEXT] + "..."
