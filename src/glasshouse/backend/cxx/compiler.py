"""Which C++ compiler builds what is generated: CXX, or the first that is installed."""

from __future__ import annotations

import shlex
import shutil
from contextlib import suppress

from glasshouse.errors import CompilerMissing


def compiler_command(named: str | None) -> list[str]:
    """The words of its command, the program with its whole path.

    `named` is what CXX says: a program, or one with words behind it ("ccache g++").
    """
    candidates = [named] if named else ["g++", "clang++", "c++"]
    for name in candidates:
        for words in ([name], _words(name)):
            path = shutil.which(words[0]) if words else None
            if path:
                return [path, *words[1:]]
    raise CompilerMissing(
        f"no C++ compiler found (looked for {', '.join(candidates)})",
        hint="install one, on Debian or Ubuntu with: apt-get install g++",
    )


def _words(text: str) -> list[str]:
    with suppress(ValueError):  # a quote without its other half
        return shlex.split(text)
    return []
