"""Lets Dynamo capture modules that count their calls (`self.nfe += 1`) once, not for every count.

An integer of a module is a constant of the graph to Dynamo, so each call of such a model compiled
it again, until PyTorch ran it (a neural ODE: 0.04 of eager's speed meanwhile). Integers of modules
whose code assigns none stay constants: numbers of heads and sizes of kernels, which make graphs
fast.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

import torch

from glasshouse.frontend.dynamo.settings import set_while_captured


def capture_counted_calls(backend: Callable[..., Any]) -> None:
    """Capture them with counts that may differ whenever Dynamo works for this backend."""
    set_while_captured(backend, "allow_unspec_int_on_nn_module", _counts)


def _counts(code: CodeType | None, arguments: Mapping[str, Any]) -> bool:
    given = arguments.get(code.co_varnames[0]) if code is not None and code.co_argcount else None
    if not isinstance(given, torch.nn.Module):
        return False
    return any(
        type(vars(part).get(name)) is int
        for part in given.modules()
        for method in _methods(type(part))
        for name in _assigned(method)
    )


def _methods(kind: type) -> Iterator[CodeType]:
    """The code of a class, but for where an instance is made and what PyTorch brings."""
    for part in kind.__mro__:
        if part.__module__.partition(".")[0] in ("torch", "builtins"):
            continue
        for name, method in vars(part).items():
            code = getattr(method, "__code__", None)
            if name != "__init__" and isinstance(code, CodeType):
                yield code


@lru_cache(maxsize=1024)
def _assigned(code: CodeType) -> frozenset[str]:
    """Attributes that code assigns."""
    steps = dis.get_instructions(code)
    return frozenset(str(step.argval) for step in steps if step.opname == "STORE_ATTR")
