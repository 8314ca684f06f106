"""Runs ONNX's own backend tests on the reference executor, and says of each how it went.

A case counts as passed when the imported graph gives the expected outputs within ONNX's own
tolerances. Inputs that ops need as numbers (axes, shapes, k) make a case run twice: with them as
inputs of the graph, and with them fixed, in which case most ops have a spelling in core ops.
"""

from __future__ import annotations

import glob
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from glasshouse.errors import CaptureError
from glasshouse.frontend.onnx import import_model
from glasshouse.frontend.onnx.dtypes import FROM_ONNX, name_of
from glasshouse.ir.dtype import BY_NAME
from glasshouse.numpy_ref import run

Array = np.ndarray[Any, Any]

# Why a case is not run. Each reason is a fact about the case's model, found by looking at it.
DOMAINS = {
    "ai.onnx.ml": "classical machine learning (ai.onnx.ml)",
    "ai.onnx.preview.training": "training (ai.onnx.preview.training)",
}
RANDOM = ("Bernoulli", "RandomUniformLike", "RandomNormalLike", "RandomUniform", "RandomNormal")


@dataclass
class Case:
    kind: str
    name: str
    model: Any
    data: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


@dataclass
class Result:
    case: str
    status: str  # "passed", "skipped" or "failed"
    reason: str = ""
    opaque: tuple[str, ...] = ()  # ops that ran through ONNX's reference evaluator


@dataclass
class Tally:
    results: list[Result] = field(default_factory=list)

    def count(self, status: str) -> int:
        return sum(r.status == status for r in self.results)

    @property
    def spelled(self) -> int:
        """Passed without any opaque node."""
        return sum(r.status == "passed" and not r.opaque for r in self.results)

    def text(self, kind: str) -> str:
        counts = ", ".join(f"{self.count(s)} {s}" for s in ("passed", "skipped", "failed"))
        lines = [f"{kind}: {len(self.results)} cases, {counts}; {self.spelled} in core ops alone"]
        skipped = Counter(r.reason for r in self.results if r.status == "skipped")
        lines += [f"  {n:4} skipped: {why}" for why, n in skipped.most_common()]
        lines += [f"  failed: {r.case}: {r.reason}" for r in self.results if r.status == "failed"]
        return "\n".join(lines)


def cases(kind: str) -> Iterator[Case]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the expected outputs overflows on purpose
        found = load_model_tests(kind=kind)
    for test in sorted(found, key=lambda t: t.name):
        if test.model is not None:
            yield Case(kind, test.name, test.model, test.data_sets, test.rtol, test.atol)
        else:
            yield _from_folder(kind, test)


def _from_folder(kind: str, test: Any) -> Case:
    model = onnx.load(os.path.join(test.model_dir, "model.onnx"))
    data = []
    for folder in sorted(glob.glob(os.path.join(test.model_dir, "test_data_set_*"))):
        both = []
        for what, infos in (("input", model.graph.input), ("output", model.graph.output)):
            paths = glob.glob(os.path.join(folder, f"{what}_*.pb"))
            both.append([_value(f"{folder}/{what}_{i}.pb", infos[i]) for i in range(len(paths))])
        data.append((both[0], both[1]))
    return Case(kind, test.name, model, data, test.rtol, test.atol)


def _value(path: str, info: Any) -> Any:
    if info.type.WhichOneof("value") != "tensor_type":
        return None
    tensor = onnx.TensorProto()
    with open(path, "rb") as file:
        tensor.ParseFromString(file.read())
    return numpy_helper.to_array(tensor)


def why_not(case: Case) -> str:
    """The reason why a case cannot be run here; "" if it can."""
    for opset in case.model.opset_import:
        if opset.domain in DOMAINS and any(n.domain == opset.domain for n in case.model.graph.node):
            return DOMAINS[opset.domain]
    graph = case.model.graph
    for info in (*graph.input, *graph.output):
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            return f"{kind.removesuffix('_type')} values as inputs or outputs"
        number = info.type.tensor_type.elem_type
        if number not in FROM_ONNX:
            return f"element type {name_of(number)}"
    for node in graph.node:
        if node.op_type in RANDOM:
            return "random numbers: any generator is right, none can be compared"
        if node.op_type == "ImageDecoder":
            return "ImageDecoder: decodes files"
    return ""


def run_case(case: Case) -> Result:
    reason = why_not(case)
    if reason:
        return Result(case.name, "skipped", reason)
    try:
        imported = _as_it_is(case)
        wanted: dict[str, None] = {}
        if imported is None:
            wanted = dict.fromkeys(_small_numbers(case))
            imported = _fixed(case, wanted)
        while not set(imported.wanted) <= set(wanted):
            wanted.update(dict.fromkeys(imported.wanted))
            imported = _fixed(case, wanted)
    except Exception as error:
        return Result(case.name, "failed", f"{type(error).__name__}: {str(error).strip()[:300]}")
    opaque = tuple(n.attrs["target"] for n in imported.graph if n.op.name == "opaque")
    return Result(case.name, "passed", opaque=opaque)


def _as_it_is(case: Case) -> Any:
    try:
        imported = import_model(case.model)
    except CaptureError:
        # What is left open may decide what the graph is: the length of a sequence, the rank of a
        # result. Then the case is about these values, and runs with them fixed alone.
        return None
    for given, expected in case.data:
        compare(case, run(imported.graph, [_stored(g) for g in given]), expected)
    return imported


def _small_numbers(case: Case) -> list[str]:
    infos = zip(case.model.graph.input, case.data[0][0], strict=True)
    return [i.name for i, a in infos if _array(a).dtype == np.int64 and _array(a).ndim <= 1]


def _fixed(case: Case, wanted: Iterable[str]) -> Any:
    names = [i.name for i in case.model.graph.input]
    imported = None
    for given, expected in case.data:
        by_name = dict(zip(names, given, strict=True))
        fixed = {name: _array(by_name.pop(name)) for name in wanted}
        rest = [_array(g) for g in by_name.values()]
        imported = import_model(case.model, rest, fixed=fixed)
        compare(case, run(imported.graph, [_stored(g) for g in rest]), expected)
    return imported


def _stored(given: Any) -> Array:
    array = _array(given)
    kind = BY_NAME.get(array.dtype.name)
    return np.asarray(array).view(kind.storage) if kind is not None and kind.is_carried else array


def _array(given: Any) -> Array:
    if isinstance(given, onnx.TensorProto):
        return np.asarray(numpy_helper.to_array(given))
    return np.asarray(given)


def compare(case: Case, found: list[Array], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for have, want in zip(found, expected, strict=True):
        want = _array(want)
        assert have.shape == want.shape, f"shape {have.shape} instead of {want.shape}"
        rtol = case.rtol
        if want.dtype.name == "bfloat16":
            # As ONNX's own runner has it: two units in the last place.
            have, want, rtol = have.astype(np.float32), want.astype(np.float32), 2**-6
        elif want.dtype.name in ("float8_e4m3fn", "float8_e5m2"):
            want, rtol = want.astype(np.float32), 0.0  # every byte
        elif want.dtype == np.float16:
            rtol = max(rtol, 2**-9)  # the same two units for the other half type
        assert have.dtype == want.dtype, f"{have.dtype} instead of {want.dtype}"
        np.testing.assert_allclose(have, want, rtol=rtol, atol=case.atol)


def run_kind(kind: str) -> Tally:
    tally = Tally()
    for case in cases(kind):
        tally.results.append(run_case(case))
    return tally
