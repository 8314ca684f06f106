"""What other programs build against a saved model with: its package, and its sources."""

from __future__ import annotations

from pathlib import Path

from glasshouse.backend.cpu.headers import header_texts
from glasshouse.backend.cpu.toolchain import toolchain
from glasshouse.backend.cxx.deploy import filled, package

_HERE = Path(__file__).parent
# Built elsewhere: no templates compiled apart, and no folder of this machine.
_LEFT_OUT = ("-DGH_EXTERN_KERNELS", "-I")


def deployed(name: str) -> dict[str, str]:
    """The texts, by their path in the folder."""
    flags = ["-O3", *(f for f in toolchain().flags if not f.startswith(_LEFT_OUT))]
    words = {"NAME": name, "FLAGS": " ".join(flags)}
    out = {**package(name), "source/CMakeLists.txt": filled(_HERE / "CMakeLists.txt", words)}
    out["source/flags"] = " ".join([*flags, "-Iinclude", "-shared", "-pthread"]) + "\n"
    out |= {f"source/include/{path}": text for path, text in header_texts().items()}
    return out
