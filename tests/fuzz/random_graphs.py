"""Campaign: random graphs with ordinary and hostile inputs, optimised and compiled, against the
reference executor.

With hostile inputs a difference counts only where the graph as it was built, compiled op by op,
agrees with the reference: then a pass or a fusion made it.
"""

from __future__ import annotations

import random
import time
import warnings
from typing import Any

import numpy as np

from fuzz.report import Report
from generators import Case, case_of
from glasshouse.ir.dtype import to_storage
from glasshouse.numpy_ref import run as run_reference
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph
from hostile.difference import difference
from hostile.ops import RTOL
from hostile.values import FILLS, filled

NAME = "random_graphs"
Array = np.ndarray[Any, Any]


def run(seed: int, until: float, report: Report) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    rng = random.Random(seed)
    while time.monotonic() < until:
        one(rng.randrange(1 << 32), report)


def one(seed: int, report: Report) -> None:
    """Compile one random graph and compare it on several inputs."""
    rng = random.Random(seed)
    dtype = rng.choice(["float32", "float32", "float64", "bfloat16", "float16"])
    case = case_of(seed, rng.randint(2, 14), dtype, symbolic=rng.random() < 0.2)
    again = f"python -c 'import fuzz.random_graphs as f; f.again({seed})'"
    report.case(again)
    try:
        modules = {
            "op by op": compile_graph(case.graph),
            "optimised": compile_graph(optimize(case.graph)),
        }
    except Exception as error:
        report.found(f"{type(error).__name__} while compiling", repr(error)[:2000], again)
        return
    for fill in ("", *rng.sample(list(FILLS), 4)):
        report.case(f"{again}  # {fill}")
        inputs = [_filled(a, fill, v.type.dtype.name) for a, v in _pairs(case)]
        try:
            wanted = run_reference(case.graph, inputs)
            found = {way: _called(m, case, inputs) for way, m in modules.items()}
        except Exception as error:
            report.found(f"{type(error).__name__} in a run", f"{fill}: {error!r}"[:2000], again)
            continue
        for number, value in enumerate(case.graph.outputs):
            kind = value.type.dtype.name
            said = {w: _compared(o[number], wanted[number], kind, fill) for w, o in found.items()}
            if said["optimised"] and (not fill or not said["op by op"]):
                title = f"{value.node.op.name} of {kind}: {said['optimised'].split(' at ')[0]}"
                report.found(title, f"{fill or 'ordinary'}: {said}", again)


def again(seed: int) -> None:
    """Run one graph and print what it finds."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        one(seed, Report(Path(folder)))
        found = Path(folder, "findings.jsonl")
        print(found.read_text() if found.exists() else "nothing")


def _pairs(case: Case) -> list[tuple[Array, Any]]:
    return list(zip(case.inputs, case.graph.inputs, strict=True))


def _filled(array: Array, fill: str, dtype: str) -> Array:
    return filled(fill, array.shape, dtype) if fill and dtype in RTOL else array


def _called(module: Any, case: Case, inputs: list[Array]) -> list[Array]:
    types = [v.type.dtype for v in case.graph.inputs]
    out = module(*[to_storage(a, d) for a, d in zip(inputs, types, strict=True)])
    return list(out) if isinstance(out, (list, tuple)) else [out]


def _compared(ours: Array, theirs: Array, dtype: str, fill: str) -> str:
    """NaN and infinities count with hostile inputs, everything with ordinary ones."""
    if dtype not in RTOL:
        return "" if fill else difference(ours, theirs, "float32", 0.0)
    scale = float(np.max(np.abs(theirs), where=np.isfinite(theirs), initial=1.0))
    rtol = {"float64": 1e-7, "float32": 1e-3}.get(dtype, 0.2)
    said = difference(ours, theirs, dtype, rtol, scale)
    return "" if fill and not said.startswith("NaN") else said
