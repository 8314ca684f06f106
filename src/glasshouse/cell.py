"""How graphs, recordings and modules show themselves in a notebook: as the viewer.

A class that takes part inherits `ShowsInCell`. The layer that draws is looked up by name when a
notebook asks, so that the layers below know nothing of it.
"""

from __future__ import annotations

import sys
from importlib import import_module

from glasshouse.errors import GlasshouseError

_NOTEBOOK = "glasshouse.show.notebook"


class ShowsInCell:
    """Something that Jupyter, VS Code and their kin show as a graph when a cell ends with it."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """The viewer as a frame; None (then the text stands there) where it cannot be shown."""
        try:
            shown: str = import_module(_NOTEBOOK).cell(self)
        except GlasshouseError as error:
            print(f"glasshouse: {error}", file=sys.stderr)
            return None
        return shown
