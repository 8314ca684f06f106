"""How the `onnx` package is found: on first use, with one line on what to install."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported


def onnx_package() -> Any:
    """The `onnx` module with its helpers loaded."""
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise Unsupported(
            "ONNX models need the onnx package", hint="pip install 'glasshouse[onnx]'"
        ) from None
    return onnx
