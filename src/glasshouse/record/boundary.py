"""The one place where whatever a hostile file provokes becomes a FormatError that names the file.

Readers and writers check what they use; this is for what they did not think of. It stands around
every reading, writing and showing of a file, so that no caller meets a bare IndexError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glasshouse.errors import FormatError, GlasshouseError
from glasshouse.record.budget import Budget


@contextmanager
def boundary(where: str, done: str = "read", budget: Budget | None = None) -> Iterator[None]:
    """Everything raised inside is a GlasshouseError; `done` says what was being done: "written"."""
    try:
        yield
    except GlasshouseError:
        raise
    except (RecursionError, MemoryError) as error:
        raise FormatError(
            f"{where}: too deep or too large to be {done} ({type(error).__name__})", _at(budget)
        ) from None
    except OSError as error:
        reason = error.strerror or _one_line(error)
        raise FormatError(f"{where}: cannot be {done} ({reason})", _at(budget)) from error
    except Exception as error:
        said = f"{type(error).__name__}: {_one_line(error)}"
        raise FormatError(f"{where}: damaged, it cannot be {done} ({said})", _at(budget)) from error


def _at(budget: Budget | None) -> str:
    return budget.place() if budget is not None else ""


def _one_line(error: Exception) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # an error whose own text cannot be made, e.g. of an int of 5,000 digits
        text = "?"
    return text if len(text) <= 200 else f"{text[:200]} ..."
