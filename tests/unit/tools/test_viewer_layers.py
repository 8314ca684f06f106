"""The layer check finds each way in which one file of the viewer imports another."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_layers
import viewer_layers


def reasons(tmp_path: Path, file: str, text: str) -> list[str]:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return [f"{v.line}: {v.reason}" for v in viewer_layers.check_viewer(tmp_path)]


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("panels/menu.ts", 'import { Compare } from "../views/compare";', 1),
        ("panels/menu.ts", 'const a = 1;\nimport {\n  A,\n  B,\n} from "../views/compare";', 5),
        ("panels/menu.ts", "import type { Compare } from '../views/compare';", 1),
        ("panels/menu.ts", 'import "../views/style.css";', 1),
        ("panels/menu.ts", 'export { Compare } from "../views/compare";', 1),
        ("panels/menu.ts", 'export * from "../views/compare";', 1),
        ("panels/menu.ts", 'const view = await import("../views/compare");', 1),
        ("panels/menu.ts", 'let a: import("../views/compare").Compare;', 1),
        ("panels/deep/er.ts", 'import { Compare } from "../../views/compare";', 1),
        ("model/graph.ts", 'import { Camera } from "../gl/camera";', 1),
        ("gl/scene.ts", 'import { serve } from "../query/serve";', 1),
        ("base/dom.ts", 'import { App } from "../main";', 1),
    ],
)
def test_finds_forbidden_import(tmp_path: Path, file: str, text: str, line: int) -> None:
    found = reasons(tmp_path, file, text)
    assert len(found) == 1
    assert found[0].startswith(f"{line}: '{file.split('/')[0]}' imports ")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("views/compare.ts", 'import { Overlays } from "../panels/overlays";'),
        ("panels/menu.ts", 'import { el } from "../base/dom";\nimport { a } from "./keys";'),
        ("panels/menu.ts", '// import { Compare } from "../views/compare";'),
        ("panels/menu.ts", '/** as in\n import { Compare } from "../views/compare";\n */'),
        ("panels/menu.ts", 'import { render } from "preact";'),
        ("main.ts", 'import { Page } from "./views/page";'),
    ],
)
def test_allows(tmp_path: Path, file: str, text: str) -> None:
    assert reasons(tmp_path, file, text) == []


def test_an_unknown_folder_is_named(tmp_path: Path) -> None:
    assert reasons(tmp_path, "magic/wand.ts", "") == [
        "1: layer 'magic' is unknown: add it to VIEWER"
    ]


def test_the_command_fails_for_the_viewer_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "package" / "ir").mkdir(parents=True)
    (tmp_path / "package" / "ir" / "graph.py").write_text("")
    (tmp_path / "viewer" / "base").mkdir(parents=True)
    command = ["check_layers", str(tmp_path / "package"), str(tmp_path / "viewer")]
    file = tmp_path / "viewer" / "base" / "dom.ts"
    file.write_text('import { App } from "../app/app";')
    assert check_layers.main(command) == 1
    assert "dom.ts:1: 'base' imports app" in capsys.readouterr().out
    file.write_text("")
    assert check_layers.main(command) == 0
