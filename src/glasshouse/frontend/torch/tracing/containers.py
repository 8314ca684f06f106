"""How objects that hold tensors (caches, results of a class of one's own) are taken apart.

`torch.export` knows tuples, lists, dicts and what is registered with its tree library. Everything
else that a model takes or returns is registered here when it is met: its attributes that hold
tensors are the children, all others are kept beside them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

_PLAIN = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Tensor,
    torch.SymInt, torch.SymFloat, torch.SymBool, torch.memory_format, torch.layout,
)  # fmt: skip
# What was put together again remembers its children: they may be no tensors by then.
_CHILDREN = "_glasshouse_children"


def register_unknown(value: Any) -> None:
    """Register the classes of all objects in a value that hold tensors and are not known yet."""
    pending, met = [value], set()
    while pending:
        current = pending.pop()
        if isinstance(current, _PLAIN) or id(current) in met:
            continue
        met.add(id(current))
        if isinstance(current, dict):
            pending += current.values()
        elif isinstance(current, (list, tuple, set)):
            pending += current
        elif not isinstance(current, torch.nn.Module) and hasattr(current, "__dict__"):
            held = _tensor_attributes(current)
            if held and type(current) not in pytree.SUPPORTED_NODES:
                _register(type(current))
            pending += [vars(current)[name] for name in held]
        if type(current) in pytree.SUPPORTED_NODES and not isinstance(current, (dict, list, tuple)):
            children, _ = pytree.SUPPORTED_NODES[type(current)].flatten_fn(current)
            pending += children


def _tensor_attributes(value: Any) -> list[str]:
    return [name for name, held in vars(value).items() if _holds_tensor(held)]


def _holds_tensor(value: Any) -> bool:
    pending, met = [value], set()
    while pending:
        current = pending.pop()
        if isinstance(current, torch.Tensor):
            return True
        if isinstance(current, _PLAIN) or id(current) in met:
            continue
        met.add(id(current))
        if isinstance(current, dict):
            pending += current.values()
        elif isinstance(current, (list, tuple)):
            pending += current
        elif not isinstance(current, (type, torch.nn.Module)) and hasattr(current, "__dict__"):
            pending += vars(current).values()
    return False


def _register(cls: type) -> None:
    def flatten(value: Any) -> tuple[list[Any], Any]:
        held = vars(value)
        names = held.get(_CHILDREN) or _tensor_attributes(value)
        rest = _Beside({k: v for k, v in held.items() if k not in names and k != _CHILDREN})
        return [held[n] for n in names], (tuple(names), rest)

    def flatten_with_keys(value: Any) -> tuple[list[Any], Any]:
        children, context = flatten(value)
        keys = [pytree.GetAttrKey(n) for n in context[0]]
        return list(zip(keys, children, strict=True)), context

    def unflatten(children: Any, context: Any) -> Any:
        names, rest = context
        made: Any = object.__new__(cls)
        made.__dict__.update(rest.attributes)
        made.__dict__.update(zip(names, children, strict=True))
        made.__dict__[_CHILDREN] = names
        return made

    pytree.register_pytree_node(
        cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
    )  # fmt: skip


class _Beside:
    """Attributes without tensors. Two objects of one structure may differ in them."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        self.attributes = attributes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Beside) and self.attributes.keys() == other.attributes.keys()

    def __hash__(self) -> int:
        return hash(tuple(self.attributes))
