"""What programs find beside a saved model, whatever it runs on: C++ wrapper, CMake package."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from glasshouse import __version__

_HERE = Path(__file__).parent


def package(name: str) -> dict[str, str]:
    """The texts, by their path in the folder."""
    words = {"NAME": name, "VERSION": __version__, "PROCESSOR": platform.machine()}
    # C++ stays C++ for editors and formatters, so its placeholder is a plain word.
    wrapper = (_HERE / "model.hpp").read_text().replace("NAME", name)
    return {
        f"cmake/glasshouse_{name}-config.cmake": filled(_HERE / "config.cmake", words),
        f"cmake/glasshouse_{name}-config-version.cmake": filled(
            _HERE / "config-version.cmake", words
        ),
        f"{name}.hpp": wrapper,
    }


def gpu_package(name: str) -> dict[str, str]:
    """The same for a model on a GPU, which is told the number of one where others count threads."""
    texts = package(name)
    wrapper = texts[f"{name}.hpp"].replace("0 threads: one for each processor", "GPUs count from 0")
    return {**texts, f"{name}.hpp": wrapper.replace("threads", "gpu")}


def filled(file: Path, words: Mapping[str, str]) -> str:
    """A text with its @PLACEHOLDERS@ filled in."""
    text = file.read_text()
    for placeholder, said in words.items():
        text = text.replace(f"@{placeholder}@", said)
    return text
