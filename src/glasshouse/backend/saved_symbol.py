"""A function of a library that was saved with a model, looked up by its name."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from glasshouse.errors import FormatError


def saved_symbol(library: Path, name: str) -> Any:
    """The function, through ctypes."""
    try:
        return getattr(ctypes.CDLL(str(library)), name)
    except (OSError, AttributeError) as error:
        raise FormatError(
            f"{library}: cannot be loaded ({error})",
            hint="copy the folder again from where it was saved, or save the model again",
        ) from None
