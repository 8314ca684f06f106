"""How Glasshouse says that something is wrong: one class for each kind of mistake.

A message says what is wrong, where (the user's line and module path, when known) and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GlasshouseError(Exception):
    """Base of every error that a user can meet; the command line prints it and exits with 2."""

    def __init__(self, message: str, where: str = "", hint: str = "") -> None:
        self.message = message
        self.where = where
        self.hint = hint
        self.doing = ""
        super().__init__(self._text())

    def during(self, step: str) -> None:
        """Name the step that failed ("pass DropDropout"); the innermost one stays."""
        if not self.doing:
            self.doing = step
            self.args = (self._text(),)

    def _text(self) -> str:
        parts = [self.message]
        if self.where:
            parts.append(f"  at {self.where}")
        if self.doing:
            parts.append(f"  in {self.doing}")
        if self.hint:
            parts.append(f"  {self.hint}")
        return "\n".join(parts)


def nearest(given: object, known: Iterable[str], are: str = "known") -> str:
    """A hint for a name that is not known: the one that is most like it, and all that there are."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(str(given), names, 1)
    listed = f"{are}: {', '.join(names) or 'none'}"
    return f"did you mean {close[0]!r}? {listed}" if close else listed


class TypeMismatch(GlasshouseError, TypeError):
    """An operand, element type or attribute of the wrong kind."""


class ShapeError(GlasshouseError, ValueError):
    """Shapes that do not fit together."""


class GraphError(GlasshouseError):
    """A graph that is not well formed: a pass or a frontend broke it."""


class ParseError(GlasshouseError, ValueError):
    """Text that is not a printed graph."""


class FormatError(GlasshouseError, ValueError):
    """A file that is not what it should be: wrong, truncated, hostile or too new."""


class LimitExceeded(FormatError):
    """A file that asks for more memory, rows, depth or time than it may have (record/budget.py)."""


class ExecutionError(GlasshouseError, RuntimeError):
    """A graph that could not be run on the inputs given."""


class OutOfMemory(ExecutionError, MemoryError):
    """There is less memory than a model needs."""


class LibraryRefused(ExecutionError):
    """A library refuses what it was chosen for: it has no algorithm, or none for where operands
    lie."""

    step: int | None = None
    """The number of the program's step, where nothing of the run has begun: it can be computed
    otherwise."""


class WeightsTaken(ExecutionError):
    """A model is used whose weights a compiled module took over."""


class GradientError(GlasshouseError, RuntimeError):
    """A gradient that does not exist, or was asked of the wrong thing."""


class CaptureError(GlasshouseError, RuntimeError):
    """A model that could not be turned into a graph."""


class DataDependent(CaptureError):
    """A model that takes another way for other data, so that one graph cannot be all of it."""


class Unsupported(GlasshouseError, NotImplementedError):
    """Something that is known and not there; the message names what is."""


class PassError(GlasshouseError, ValueError):
    """A pass that does not exist, cannot be configured as asked, or broke a graph."""


class CompilerMissing(GlasshouseError, RuntimeError):
    """No C++ compiler on this machine; the reference executor still runs every model."""


class BuildError(GlasshouseError, RuntimeError):
    """Generated code that did not build."""


class NumericsError(GlasshouseError, ArithmeticError):
    """Numbers that changed by more than rounding; the message names what changed them."""


class LostGradient(UserWarning):
    """An argument requires a gradient that a compiled module does not compute."""


class InParts(UserWarning):
    """A model that is compiled in parts, because the way through it depends on data."""


class NotCompiled(UserWarning):
    """A model of which torch.compile compiles nothing."""


class OnReference(RuntimeWarning):
    """A graph, or a body in one, that the reference executor runs, slowly: it is not compiled."""


class StaleWeights(UserWarning):
    """The model's weights were changed after it was compiled, and the module has not been told."""
