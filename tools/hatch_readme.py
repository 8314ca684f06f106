"""The README as package indexes show it: links into the repository are absolute there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)]+)\)")


def absolute(text: str, repository: str) -> str:
    """Markdown whose relative links lead to the main branch of a repository."""

    def link(found: re.Match[str]) -> str:
        picture, shown, path = found.groups()
        return f"{picture}[{shown}]({repository}/{'raw' if picture else 'blob'}/main/{path})"

    return _LINK.sub(link, text)


class ReadmeHook(MetadataHookInterface):
    """Gives a built package its long description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """`readme` of the project's table."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Repository"]
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, repository),
        }
