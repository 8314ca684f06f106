"""How kernels are built in tests: as users build them where numbers are compared, else fast.

`tests/README.md` tells why.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NUMBERS = ("hostile", "models", "onnx_suite", "opinfo", "ops")
"""Folders that compare numbers."""


@pytest.fixture(scope="module", autouse=True)
def compiler_flags(request: pytest.FixtureRequest) -> Iterator[None]:
    folder = request.path.relative_to(HERE).parts[0]
    with pytest.MonkeyPatch.context() as patch:
        if folder not in NUMBERS and "GLASSHOUSE_CXXFLAGS" not in os.environ:
            patch.setenv("GLASSHOUSE_CXXFLAGS", "-O1")
        yield
