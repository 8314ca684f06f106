"""A model whose way depends on data, compiled in parts: the graphs between the places where Python
reads data are compiled, and Python runs between them as it does without a compiler."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from glasshouse.errors import NotCompiled, Unsupported
from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo.broken_loops import (
    Functions,
    count_part,
    is_called_by,
    look_again,
    loops_broken,
)

_TIMED = 3
"""Calls of each way whose processor time is taken where loops are broken, before one is chosen."""

_NOTICED = 1.03
"""A way that takes longer by this is not taken: guards of parts may cost more than small ops."""


class CompiledParts:
    """Called like the model. `parts` are the graphs compiled so far: further ones follow when a
    call takes another way.

    Where Dynamo makes no graph of a loop in which Python reads data, nor of what it calls, the loop
    is broken from the next call on (`broken_loops.py`). Parts of such loops may be small, so calls
    are timed in turns with Python's, and the faster way stays.
    """

    def __init__(self, model: Any, why: str) -> None:
        self.why = why
        self.parts: list[dynamo.Compiled] = []
        self._model = model
        self._run: Callable[..., Any] = torch.compile(model, backend=self._as_ours())
        self._refused: Functions = {}  # those that Dynamo left to Python for a loop
        self._has_parts_in_loops = False
        self._breaks_loops = False
        self._times: tuple[list[float], list[float]] = ([], [])  # of parts, of Python

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            if self._run is self._model:
                return self._model(*args, **kwargs)
            if self._breaks_loops and len(self._times[1]) < _TIMED:
                return self._timed(args, kwargs)
            with loops_broken(self._refused, self._breaks_loops):
                out = self._run(*args, **kwargs)
            self._look_at_loops()
            return out

    def _look_at_loops(self) -> None:
        """Dynamo never comes back to a function of which it made no graph, and its hooks cost a
        solver of 21 small layers 7 % of a call."""
        if self._refused and not self._has_parts_in_loops and not self._breaks_loops:
            self._breaks_loops = True
            look_again(self._refused)
        elif not self.parts:
            self._leave_to_python(
                "Dynamo makes no graph around the places where Python reads data; in a loop, a "
                "body that is a function of its own would be compiled"
            )

    def _timed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call by the way whose turn it is; one that compiles something is not timed."""
        by_parts, by_python = self._times
        in_parts = len(by_parts) <= len(by_python)
        before, begin = len(self.parts), time.process_time()
        if in_parts:
            with loops_broken(self._refused, True):
                out = self._run(*args, **kwargs)
        else:
            out = self._model(*args, **kwargs)
        seconds = time.process_time() - begin  # what else the machine does counts for neither
        if not self.parts:
            self._look_at_loops()
        elif len(self.parts) == before:
            (by_parts if in_parts else by_python).append(seconds)
            if len(by_python) == _TIMED and min(by_parts) > _NOTICED * min(by_python):
                self._leave_to_python(
                    f"its loop in parts takes {min(by_parts):.2g} s, and {min(by_python):.2g} s "
                    "without; fewer and larger ops between the places where Python reads data "
                    "would be compiled"
                )
        return out

    def _leave_to_python(self, why: str) -> None:
        self._run = self._model
        warnings.warn(
            f"nothing of this model is compiled, and PyTorch runs it: {why}",
            NotCompiled,
            stacklevel=4,
        )

    @property
    def recordings(self) -> list[Any]:
        """What the compiler wrote down for each part."""
        return [p.recording for p in self.parts]

    def _as_ours(self) -> Callable[..., Any]:
        """The backend of these parts, for which Dynamo is set as for `backend="glasshouse"`."""

        def made(graph: Any, examples: Any, **_: Any) -> Any:
            return self._backend(graph, examples)

        made.compiler_fn = dynamo.backend  # type: ignore[attr-defined]  # seen by settings.py
        return made

    def _backend(self, graph: Any, examples: Any) -> Any:
        before = len(dynamo.compiled_graphs())
        made = dynamo.backend(graph, examples)
        self.parts += dynamo.compiled_graphs()[before:]
        self._has_parts_in_loops = self._has_parts_in_loops or is_called_by(self._refused)
        if not self._breaks_loops:
            return made

        @functools.wraps(made)
        def counted(*args: Any) -> Any:
            count_part()
            return made(*args)

        return counted

    def save(self, *_: Any, **__: Any) -> None:
        raise Unsupported(
            "a model in parts cannot be saved: Python runs between them", hint=self.why
        )

    def __repr__(self) -> str:
        left = ", left to Python" if self._run is self._model else ""
        return f"<Parts: {len(self.parts)} compiled so far{left}>"
