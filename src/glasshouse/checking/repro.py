"""A fault to take away: a script that shows it, with the graph as text and its data beside."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from glasshouse.checking.finding import Finding
from glasshouse.checking.smallest import WrongPart
from glasshouse.errors import FormatError
from glasshouse.ir.attrs import AttrValue
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.parser import parse_graph
from glasshouse.ir.printer import print_graph
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.numerics.widen import Array
from glasshouse.passes.base import PASSES
from glasshouse.passes.subgraph_rewrite import RULES

_SCRIPT = '''"""{what}

Written by glasshouse bisect. It compiles the graph below and compares it with float64; it ends with
1 while the fault is there.
"""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np

import glasshouse as gh
from glasshouse.checking.check import Subject, check
from glasshouse.checking.repro import rebuilt

{own}
GRAPH = """
{graph}"""

data = np.load(Path(__file__).with_suffix(".npz"))
inputs = [data[f"input_{{i}}"] for i in range({inputs})]
graph = rebuilt(GRAPH, [data[f"constant_{{i}}"] for i in range({constants})])
module = gh.compile(graph, target={target!r}, progress=False)
verdict = check(Subject("smallest", graph, inputs=inputs), module, {tolerance!r})
for finding in verdict.findings:
    print(finding)
print("right" if verdict.good else "wrong")
sys.exit(0 if verdict.good else 1)
'''


def write_script(
    path: Path, part: WrongPart, finding: Finding, target: str, tolerance: float | None
) -> Path:
    """The script and its data (`.npz` beside it)."""
    constants = _constants(part.graph)
    arrays = {f"input_{i}": np.asarray(a) for i, a in enumerate(part.inputs)}
    arrays |= {f"constant_{i}": np.asarray(a) for i, a in enumerate(constants)}
    what = str(finding).replace("\\", "/").replace('"""', "'''")
    text = _SCRIPT.format(
        what=what, graph=print_graph(part.graph), inputs=len(part.inputs),
        constants=len(constants), target=target, tolerance=tolerance, own=_own_files(),
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".npz"), "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # by name
    path.write_text(text, encoding="utf-8")
    return path


def _own_files() -> str:
    """What loads the modules whose passes, rules and ops are not Glasshouse's: the fault may be
    theirs."""
    made: list[object] = [*PASSES.values(), *(rule.find for rule in RULES.values())]
    made += [op.ref for op in REGISTRY.values()]
    names = {str(getattr(what, "__module__", None) or "") for what in made}
    others = {"", "__main__", "glasshouse", "numpy", "scipy"} | sys.stdlib_module_names
    homes = []
    for name in sorted(n for n in names if n.partition(".")[0] not in others):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            steps = name.count(".") + (Path(file).name == "__init__.py")
            homes.append((str(Path(file).resolve().parents[steps]), name))
    if not homes:
        return ""
    return (
        f"for folder, name in {homes!r}:  # their passes, rules and ops take part\n"
        "    sys.path.insert(0, folder)\n"
        "    import_module(name)\n"
    )


def rebuilt(text: str, constants: Sequence[Array]) -> Graph:
    """A printed graph with the data of its constants, in the order in which they stand."""
    parsed = parse_graph(text)
    holding = [n for n in parsed.nodes if n.op is CONSTANT or n.op is VARIABLE]
    if len(holding) != len(constants):
        raise FormatError(f"the graph has {len(holding)} constants, there are {len(constants)}")
    data = dict(zip(holding, constants, strict=True))
    out = Graph(parsed.name)
    twin: dict[Value, Value] = {}
    for node in parsed.nodes:
        attrs: dict[str, AttrValue] = dict(node.attrs)
        if node in data:
            attrs["data"] = data[node]
        made = out._add(
            node.op, tuple(twin[v] for v in node.inputs), attrs, [v.type for v in node.outputs],
            node.origin, node.id,
        )  # fmt: skip
        twin.update(zip(node.outputs, made.outputs, strict=True))
    out.inputs = [twin[v] for v in parsed.inputs]
    out._set_outputs([twin[v] for v in parsed.outputs], parsed.output_names)
    for variable, value in parsed.updates.items():
        out._set_update(twin[variable.output].node, twin[value])
    return out


def _constants(graph: Graph) -> list[Array]:
    return [n.attrs["data"] for n in graph.nodes if n.op is CONSTANT or n.op is VARIABLE]
