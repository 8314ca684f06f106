"""Keywords of `compile` and `trace` that neither they nor the model know: refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from glasshouse.errors import TypeMismatch, nearest

TRACING = ("dynamic_shapes", "name", "partition", "freeze")
"""Keywords of tracing a PyTorch model, besides the model's own."""

# What others call it -> what to do here.
_ELSEWHERE = {
    "device": "target='cpu' says what to compile for",
    "backend": "target='cpu' says what to compile for",
    "mode": "tune=True measures more, tune=False nothing; there are no modes",
    "dynamic": "dynamic_shapes=..., or glasshouse.spec(shape) as an input, leaves sizes free",
    "fullgraph": "a model is one graph already, unless a warning says otherwise",
    "dtype": "precision='bfloat16' lets products compute in it; the model's types are its own",
}


def options_of(function: Callable[..., Any]) -> list[str]:
    """The names of a function's own keywords."""
    kinds = inspect.signature(function).parameters.values()
    return [p.name for p in kinds if p.kind is p.KEYWORD_ONLY]


def check_keywords(model: Any, keywords: Mapping[str, Any], options: Iterable[str]) -> None:
    """Every keyword is one of tracing, or a parameter of the model's `forward`."""
    forward = getattr(model, "forward", None)
    if not keywords or forward is None:
        return
    try:
        parameters = inspect.signature(forward).parameters
    except (TypeError, ValueError):  # a builtin: the model itself will say
        return
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in keywords:
        if name in parameters or name in TRACING:
            continue
        hint = _ELSEWHERE.get(name) or nearest(
            name, [*options, *TRACING, *parameters], "compile and the model take"
        )
        kind = type(model).__name__
        raise TypeMismatch(f"neither compile nor {kind}.forward has a keyword {name!r}", hint=hint)
