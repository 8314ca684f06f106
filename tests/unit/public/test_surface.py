"""The names of `import glasshouse as gh`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import glasshouse as gh

SOURCE = Path(gh.__file__)


@pytest.mark.parametrize("name", [n for n in dir(gh) if not n.startswith("_")])
def test_every_name_is_there(name: str) -> None:
    assert getattr(gh, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(SOURCE.read_text())
    choices = [n for n in tree.body if isinstance(n, ast.If)]
    block = next(n for n in choices if ast.unparse(n.test) == "TYPE_CHECKING")
    typed = {a.asname for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert typed == {n for n in dir(gh) if not n.startswith("_")}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = gh.nothing


def test_importing_loads_nothing_else() -> None:
    code = "import sys, glasshouse; print([m for m in sys.modules if m.startswith('glasshouse.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
