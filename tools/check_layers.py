"""Which layer of src/glasshouse may import which, and fails when a file breaks that.

The folders of viewer/src are checked as well, by `viewer_layers.py`.

Run: python tools/check_layers.py [PACKAGE_FOLDER [VIEWER_SOURCE_FOLDER]]

Every import counts: at the top of a file, inside a function, under TYPE_CHECKING, and
`importlib.import_module`; with a computed name only from the files in DOORS. To allow a new arrow,
add it to MAY_IMPORT and say why in the commit; the table must stay free of cycles, and the check
says so when it is not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError
from pathlib import Path

from layers import Table, Violation, closure
from viewer_layers import check_viewer

PACKAGE = "glasshouse"

# Files directly in src/glasshouse (`__init__`, the public functions). They may import everything;
# a layer that imports them has an arrow to everything.
ROOT = "(public API)"

# Layer -> the layers that it may import. What those may import, it may import too: a line here
# names the nearest layers only. A layer may always import itself and EVERYBODY.
MAY_IMPORT: Table = {
    "ir": frozenset(),
    "ops": frozenset({"ir"}),
    "numpy_ref": frozenset({"ops"}),
    "tensor": frozenset({"numpy_ref"}),  # runs what is pending until a compiler is set
    "nn": frozenset({"tensor"}),
    # torch.compile's backend compiles what it is given; training captures differentiate.
    "frontend": frozenset({"ops", "tensor", "runtime"}),
    # What Dynamo captures becomes a graph as any program of PyTorch's does; nothing there knows it.
    "frontend.dynamo": frozenset({"frontend"}),
    # numerics: folding runs ops, instruments compare with the reference and write recordings;
    # formats: an instrument writes intermediate graphs as files; lower and backend: passes read
    # the target's figures, and decide programs (variants, views, memory) as they decide graphs.
    "passes": frozenset({"ops", "numerics", "formats", "lower", "backend"}),
    "lower": frozenset({"ops"}),
    # The protocol, and machines; who uses it knows no backend by name. A tile that is interpreted
    # is the NumPy meaning of its op.
    "backend": frozenset({"lower", "numpy_ref"}),
    # Elements, sizes and positions are the same C++ on processors and on GPUs.
    "backend.cxx": frozenset({"backend"}),
    "backend.cpu": frozenset({"backend.cxx"}),
    "backend.cuda": frozenset({"backend.cxx"}),
    # compile() traces and optimises; what has no kernel runs on the reference.
    "runtime": frozenset({"backend", "passes", "numpy_ref", "tensor"}),
    # Compares what runs with the model that a frontend read, pass by pass and kernel by kernel.
    "checking": frozenset({"frontend", "runtime", "show"}),
    # What other compilers made of a model, read into recordings over the graph that we trace.
    "peers": frozenset({"frontend", "runtime", "show"}),
    "record": frozenset({"ir"}),
    "numerics": frozenset({"numpy_ref", "record"}),
    "formats": frozenset({"record"}),
    "show": frozenset({"formats"}),  # whatever can be read can be shown
    # Models by the names that commands know them by; tasks plan, measure and build; the recordings
    # of ranks are joined as those of files are.
    "distributed": frozenset({ROOT, "frontend.dynamo", "runtime", "show"}),
    "serve": frozenset({"runtime"}),  # saved models, no compiler
    # gh.passes is part of the public API, and Hidet's scripts write files.
    "compat": frozenset({ROOT, "nn", "passes"}),
}
# A folder inside of a layer that stands here is a layer of its own. What only it is allowed is not
# allowed to its parent: `backend` may not import `backend.cpu`, and neither may `runtime`.
# A command may use everything: nothing imports a command.
MAY_IMPORT["cli"] = frozenset({ROOT, *MAY_IMPORT})

# Names that every layer may import.
EVERYBODY = frozenset(
    {
        f"{PACKAGE}.{name}"
        for name in ("cell", "collection", "errors", "forking", "watched", "__version__")
    }
)

# Files that import what a table or a caller names: the one way past the arrows, so each says why.
DOORS = {
    "__init__.py": "the public names, imported when they are used",
    "backend/base.py": "backends by name: who compiles knows none of them",
    "cell.py": "a notebook asks what it shows for a page; only then is `show` needed",
    "cli/__init__.py": "commands by name",
    "forking.py": "waits for imports that other threads have begun; imports nothing new",
    "frontend/torch/tracing/late_import.py": "a module of another package, when it is first used",
    "ir/op.py": "the declarations of ops, when the first of them is asked for by name",
    "tensor/execute.py": "what is pending runs compiled once there is a compiler to ask for",
}


def layer_of(name: str, table: Table) -> str:
    """The layer of a dotted name inside the package: `glasshouse.ir.graph.Graph` is in `ir`.

    The innermost folder that the table knows counts: `glasshouse.backend.cpu.emit` is in
    `backend.cpu`, `glasshouse.backend.base` in `backend`.
    """
    parts = name.split(".")[1:]
    names = (".".join(parts[:end]) for end in range(min(len(parts), 2), 0, -1))
    return next((found for found in names if found in table), ROOT)


def imported_names(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """(line, dotted name) for each import in a file; `from a import b` gives `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                # One dot is the package that holds the file; each further dot, one package up.
                up = module.split(".")[: None if is_package else -1]
                up = up[: len(up) - (node.level - 1)]
                base = ".".join([*up, base] if base else up)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and node.args:
            called = node.func
            label = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            first = node.args[0]
            if (
                label in {"import_module", "__import__"}
                and isinstance(first, ast.Constant)
                and isinstance(first.value, str)
            ):
                yield node.lineno, first.value


def computed_imports(tree: ast.Module) -> Iterator[int]:
    """Lines that import a module whose name is computed, and not inside one known package."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called, first = node.func, node.args[0]
        label = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if label not in {"import_module", "__import__"} or isinstance(first, ast.Constant):
            continue
        head = first.values[0] if isinstance(first, ast.JoinedStr) and first.values else first
        own = isinstance(head, ast.FormattedValue) and getattr(head.value, "id", "") == "__name__"
        fixed = isinstance(head, ast.Constant) and str(head.value).count(".") >= 2
        if not own and not fixed:
            yield node.lineno


def check_file(file: Path, package: Path, table: Table, reach: Table) -> Iterator[Violation]:
    """The violations in one file."""
    relative = file.relative_to(package).with_suffix("")
    is_package = relative.name == "__init__"
    parts = relative.parts[:-1] if is_package else relative.parts
    module = ".".join([PACKAGE, *parts])
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    if file.relative_to(package).as_posix() not in DOORS:
        for line in computed_imports(tree):
            yield Violation(
                file, line, "imports a module by a computed name: add the file to DOORS and say why"
            )
    if len(relative.parts) == 1:
        return  # the public API may import every layer
    folder = layer_of(module, table)
    if folder == ROOT:
        folder = relative.parts[0]
        yield Violation(file, 1, f"layer '{folder}' is unknown: add it to MAY_IMPORT")
        return
    allowed = reach[folder] | {folder}
    seen: set[tuple[int, str]] = set()
    for line, name in imported_names(tree, module, is_package):
        if name.split(".")[0] != PACKAGE:
            continue
        if any(name == free or name.startswith(free + ".") for free in EVERYBODY):
            continue
        target = layer_of(name, table)
        if target not in allowed and (line, target) not in seen:
            seen.add((line, target))
            may = ", ".join(sorted(allowed - {folder})) or "nothing else"
            yield Violation(
                file, line, f"'{folder}' imports {target} ({name}); it may import {may}"
            )


def check(package: Path, table: Table = MAY_IMPORT) -> list[Violation]:
    """All violations below a package folder, in the order of files and lines."""
    reach = closure(table)
    return [
        violation
        for file in sorted(package.rglob("*.py"))
        for violation in sorted(check_file(file, package, table, reach), key=lambda v: v.line)
    ]


def main(argv: list[str]) -> int:
    """Print the violations; 0 when there are none."""
    root = Path(__file__).parent.parent
    package = Path(argv[1]) if len(argv) > 1 else root / "src" / PACKAGE
    viewer = Path(argv[2]) if len(argv) > 2 else root / "viewer" / "src"
    try:
        violations = [*check(package), *check_viewer(viewer)]
    except CycleError as error:
        print(f"the table goes in a circle: {' -> '.join(error.args[1])}")
        return 1
    for violation in violations:
        print(violation)
    counts = [sum(1 for _ in package.rglob("*.py")), sum(1 for _ in viewer.rglob("*.ts"))]
    print(
        f"layers: {counts[0]} files of Python, {counts[1]} of TypeScript, "
        f"{len(violations)} forbidden imports"
    )
    return 1 if violations or not all(counts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
