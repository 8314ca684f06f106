"""The layer check finds each way of importing upwards."""

from __future__ import annotations

from graphlib import CycleError
from pathlib import Path

import pytest

import check_layers


def reasons(tmp_path: Path, file: str, text: str) -> list[str]:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return [f"{v.line}: {v.reason}" for v in check_layers.check(tmp_path)]


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("ir/graph.py", "import glasshouse.ops.registry", 1),
        ("ir/graph.py", "import os\nfrom glasshouse.ops import registry", 2),
        ("ir/graph.py", "from glasshouse import ops", 1),
        ("ir/graph.py", "def f():\n    from glasshouse.nn.module import Module", 2),
        ("ir/graph.py", "if TYPE_CHECKING:\n    from glasshouse.tensor import Tensor", 2),
        ("ir/graph.py", "from ..ops import registry", 1),
        ("ir/__init__.py", "from ..ops import registry", 1),
        ("ir/deep/er.py", "from ...ops.registry import op", 1),
        ("ir/graph.py", "import importlib\nimportlib.import_module('glasshouse.show.page')", 2),
        ("ops/relu.py", "import glasshouse as gh", 1),
        ("ops/relu.py", "from glasshouse import trace", 1),
        ("tensor/tensor.py", "from glasshouse.nn import Module", 1),
        ("record/reader.py", "from glasshouse.ops import registry", 1),
        ("show/page.py", "from glasshouse.passes.base import Pass", 1),
        ("runtime/module.py", "from glasshouse.backend.cpu.emit import emit", 1),
        ("runtime/module.py", "from glasshouse.backend import cpu", 1),
        ("backend/base.py", "from glasshouse.backend.cpu import emit", 1),
    ],
)
def test_finds_forbidden_import(tmp_path: Path, file: str, text: str, line: int) -> None:
    found = reasons(tmp_path, file, text)
    assert len(found) == 1
    assert found[0].startswith(f"{line}: '{file.split('/')[0]}' imports ")


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("import_module(NAMES[0])", True),
        ("importlib.import_module(_SHOW)", True),
        ('import_module(f"glasshouse.{layer}.page")', True),
        ('import_module(f"{__name__}.{family}")', False),
        ('import_module(f"glasshouse.ir.{name}")', False),
    ],
)
def test_a_computed_name_needs_a_door(tmp_path: Path, text: str, is_found: bool) -> None:
    found = reasons(tmp_path, "ir/graph.py", text)
    assert any("computed name" in reason for reason in found) == is_found
    assert not reasons(tmp_path / "other", "tensor/execute.py", text)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("ir/graph.py", "from glasshouse.errors import GraphError\nfrom glasshouse import errors"),
        (
            "ir/graph.py",
            "import numpy\nfrom glasshouse.ir.node import Node\nfrom .node import Node",
        ),
        ("ir/graph.py", "from glasshouse import __version__"),
        ("nn/linear.py", "from glasshouse.ir import Graph\nfrom glasshouse.ops import relu"),
        ("numerics/replay.py", "from glasshouse.ir import Graph"),
        ("compat/hidet.py", "import glasshouse as gh\nfrom glasshouse import nn"),
        ("cli/demo.py", "from glasshouse.show.page import page"),
        ("__init__.py", "from glasshouse.cli import main"),
        ("backend/cpu/emit.py", "from glasshouse.backend.base import Source"),
        ("runtime/module.py", "from glasshouse.backend.base import backend_named"),
    ],
)
def test_allows(tmp_path: Path, file: str, text: str) -> None:
    assert reasons(tmp_path, file, text) == []


def test_unknown_layer_is_named(tmp_path: Path) -> None:
    assert reasons(tmp_path, "magic/wand.py", "") == [
        "1: layer 'magic' is unknown: add it to MAY_IMPORT"
    ]


def test_circle_in_the_table_is_refused(tmp_path: Path) -> None:
    table = {"a": frozenset({"b"}), "b": frozenset({"a"})}
    with pytest.raises(CycleError):
        check_layers.check(tmp_path, table)


def test_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "graph.py").write_text("import glasshouse.ops")
    assert check_layers.main(["check_layers", str(tmp_path)]) == 1
    assert "graph.py:1: 'ir' imports ops" in capsys.readouterr().out


def test_an_empty_folder_is_no_success(tmp_path: Path) -> None:
    assert check_layers.main(["check_layers", str(tmp_path)]) == 1
