"""What other programs build against a saved model with: C++ wrapper, CMake package, its sources."""

from __future__ import annotations

import platform
from pathlib import Path

from glasshouse import __version__
from glasshouse.backend.cpu.headers import header_texts
from glasshouse.backend.cpu.toolchain import toolchain

_HERE = Path(__file__).parent
# Built elsewhere: no templates compiled apart, and no folder of this machine.
_LEFT_OUT = ("-DGH_EXTERN_KERNELS", "-I")


def deployed(name: str) -> dict[str, str]:
    """The texts, by their path in the folder."""
    flags = ["-O3", *(f for f in toolchain().flags if not f.startswith(_LEFT_OUT))]
    words = {
        "NAME": name,
        "VERSION": __version__,
        "PROCESSOR": platform.machine(),
        "FLAGS": " ".join(flags),
    }
    texts = {
        f"cmake/glasshouse_{name}-config.cmake": "config.cmake",
        f"cmake/glasshouse_{name}-config-version.cmake": "config-version.cmake",
        "source/CMakeLists.txt": "CMakeLists.txt",
    }
    out = {path: _filled(file, words) for path, file in texts.items()}
    # C++ stays C++ for editors and formatters, so its placeholder is a plain word.
    out[f"{name}.hpp"] = (_HERE / "model.hpp").read_text().replace("NAME", name)
    out["source/flags"] = " ".join([*flags, "-Iinclude", "-shared", "-pthread"]) + "\n"
    out |= {f"source/include/{path}": text for path, text in header_texts().items()}
    return out


def _filled(file: str, words: dict[str, str]) -> str:
    """A text with its @PLACEHOLDERS@ filled in."""
    text = (_HERE / file).read_text()
    for placeholder, said in words.items():
        text = text.replace(f"@{placeholder}@", said)
    return text
