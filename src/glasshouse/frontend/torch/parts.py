"""A model whose way depends on data, compiled in parts: the graphs between the places where Python
reads data are compiled, and Python runs between them as it does without a compiler."""

from __future__ import annotations

from typing import Any

import torch

from glasshouse.errors import Unsupported
from glasshouse.frontend import dynamo


class CompiledParts:
    """Called like the model. `parts` are the graphs compiled so far: further ones follow when a
    call takes another way."""

    def __init__(self, model: Any, why: str) -> None:
        self.why = why
        self.parts: list[dynamo.Compiled] = []
        self._run = torch.compile(model, backend=self._backend)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            return self._run(*args, **kwargs)

    @property
    def recordings(self) -> list[Any]:
        """What the compiler wrote down for each part."""
        return [p.recording for p in self.parts]

    def _backend(self, graph: Any, examples: Any, **_: Any) -> Any:
        before = len(dynamo.compiled_graphs())
        made = dynamo.backend(graph, examples)
        self.parts += dynamo.compiled_graphs()[before:]
        return made

    def save(self, *_: Any, **__: Any) -> None:
        raise Unsupported(
            "a model in parts cannot be saved: Python runs between them", hint=self.why
        )

    def __repr__(self) -> str:
        return f"<Parts: {len(self.parts)} compiled so far>"
