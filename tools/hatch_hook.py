"""What a package build does about the viewer: a wheel always carries a current bundle.

An editable install builds the bundle too, when it can; when it cannot, it says so and goes on,
because all but the viewer works without.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# hatchling loads this file by its path, so its neighbours are not on sys.path.
sys.path.insert(0, str(Path(__file__).parent))

import viewer_bundle


class ViewerHook(BuildHookInterface[Any]):
    """Brings the viewer's bundle into src/glasshouse/show/static before files are collected."""

    def dependencies(self) -> list[str]:
        """Node from PyPI, when a build is due and the machine has none."""
        root = Path(self.root)
        due = viewer_bundle.has_viewer(root) and not viewer_bundle.is_current(root)
        return [viewer_bundle.NODE_PACKAGE] if due and viewer_bundle.find_node() is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the bundle unless it is current, and have it packed although git ignores it."""
        root = Path(self.root)
        if viewer_bundle.has_viewer(root):
            try:
                viewer_bundle.build(root)
            except viewer_bundle.BundleError as error:
                if version != "editable":
                    raise
                self.app.display_warning(f"viewer: {error}")
        build_data["artifacts"].append("src/glasshouse/show/static/**")
