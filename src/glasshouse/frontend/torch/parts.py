"""A model whose way depends on data, compiled in parts: the graphs between the places where Python
reads data are compiled, and Python runs between them as it does without a compiler."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from glasshouse.errors import NotCompiled, Unsupported
from glasshouse.frontend import dynamo


class CompiledParts:
    """Called like the model. `parts` are the graphs compiled so far: further ones follow when a
    call takes another way."""

    def __init__(self, model: Any, why: str) -> None:
        self.why = why
        self.parts: list[dynamo.Compiled] = []
        self._model = model
        self._run = torch.compile(model, backend=self._backend)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            out = self._run(*args, **kwargs)
            if not self.parts and self._run is not self._model:
                self._leave_to_python()
            return out

    def _leave_to_python(self) -> None:
        """Dynamo never comes back to a function of which it made no graph (a loop in which Python
        reads data), and its hooks cost a solver of 21 small layers 7 % of a call."""
        self._run = self._model
        warnings.warn(
            "nothing of this model is compiled, and PyTorch runs it: Dynamo makes no graph around "
            "the places where Python reads data; in a loop, a body that is a function of its own "
            "would be compiled",
            NotCompiled,
            stacklevel=3,
        )

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
