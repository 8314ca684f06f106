"""How the `onnx` package, which writing needs, is found; with a clear word if it is absent."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import FormatError


def onnx_package(where: str) -> Any:
    """The `onnx` module; FormatError with the command that installs it."""
    try:
        import onnx
        import onnx.helper
    except ImportError:
        raise FormatError(
            f"{where}: it needs the onnx package; run: pip install 'glasshouse[onnx]'"
        ) from None
    return onnx
