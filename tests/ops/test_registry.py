"""Crosses every op of the registry with everything that an op must do; a hole needs a reason."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import NoGradient, Op, Operands, parse_graph, print_graph, symbol, verify
from glasshouse.ir.attrs import REQUIRED
from glasshouse.ir.dim import evaluate
from glasshouse.ir.op import REGISTRY
from glasshouse.numpy_ref import run
from ops.harness import (
    HALF,
    apply,
    assert_close,
    attrs_of,
    forward_graph,
    gradient_graph,
    pullback,
    torch_outputs,
    typed_inputs,
    types_of,
)
from ops.samples import CROSSINGS, HOLES, SAMPLES
from ops.samples.sample import Array, Sample

STEP = 1e-6  # of finite differences: truncation about 1e-12, rounding about 1e-10
GRAD_RTOL, GRAD_ATOL = 2e-6, 2e-6
MAX_PROBES = 40  # elements of one operand that finite differences try


def _has_gradient(op: Op, sample: Sample) -> bool:
    """Whether the gradient is checked on this sample; integers have none."""
    return bool(
        sample.grad and sample.dtypes[0] == "float64" and not isinstance(op.vjp, NoGradient)
    )


_KNOWN = {name: given for name, given in SAMPLES.items() if name in REGISTRY}
_CASES = [
    pytest.param(REGISTRY[name], sample, id=f"{name}-{i}")
    for name, samples in _KNOWN.items()
    for i, sample in enumerate(samples)
]
_GRADS = [
    case for case in _CASES
    if _has_gradient(*case.values)
]  # fmt: skip
_SECOND = [case for case in _GRADS if case.values[1].second]


# ------------------------------------------------------------------------------------------ holes
def test_samples_name_ops_of_the_registry() -> None:
    assert set(SAMPLES) <= set(REGISTRY), "samples of ops that do not exist"
    assert {name for name, _ in HOLES} <= set(REGISTRY), "holes of ops that do not exist"


@pytest.mark.parametrize("name", list(REGISTRY))
def test_every_crossing_is_covered_or_declared(name: str) -> None:
    samples = SAMPLES.get(name, [])
    missing = _missing(REGISTRY[name], samples)
    declared = {crossing for op, crossing in HOLES if op == name}
    if "samples" in declared:
        assert not samples, "declared as having no samples"
        return
    undeclared = {c: CROSSINGS[c] for c in missing - declared}
    assert not undeclared, f"{name} lacks, without a declared reason: {undeclared}"
    assert declared <= missing, f"{name}: declared as holes, but covered: {declared - missing}"


def _missing(op: Op, samples: list[Sample]) -> set[str]:
    arrays = [a for s in samples for a in s.inputs]
    no_gradient = isinstance(op.vjp, NoGradient)
    covered = {
        "samples": len(samples) >= 2,
        "torch": any(s.torch for s in samples),
        "half": any(set(HALF) <= set(s.dtypes) for s in samples),
        "empty": any(np.size(a) == 0 for a in arrays),
        "scalar": any(np.ndim(a) == 0 for a in arrays),
        "broadcast": (
            op.operands is Operands.AS_GIVEN or len(op.inputs) < 2
            or any(len({np.shape(a) for a in s.inputs}) > 1 for s in samples)
        ),
        "gradient": no_gradient or any(_has_gradient(op, s) for s in samples),
        "second": no_gradient or any(_has_gradient(op, s) and s.second for s in samples),
        "text": ("text" not in {c for n, c in HOLES if n == op.name}),
        "symbolic": any(_symbolic_sizes(s) for s in samples),
    }  # fmt: skip
    return {crossing for crossing, there in covered.items() if not there}


@pytest.mark.parametrize("name", list(REGISTRY))
def test_docs(name: str) -> None:
    op = REGISTRY[name]
    if op.family != "source":
        assert op.doc.strip(), "an op says what it computes"
    for key, attr in op.attrs.items():
        if attr.default is not REQUIRED and attr.default is not None:
            assert attr.convert(attr.default) == attr.default, f"default of {key} is not normal"


# ---------------------------------------------------------------------------------------- meaning
# One test for all element types, and below for all sizes: pytest's own work for a test takes longer
# than the test, and a failure shows the arguments of the function that failed.
@pytest.mark.parametrize("op, sample", _CASES)
def test_reference(op: Op, sample: Sample) -> None:
    for dtype in sample.dtypes:
        _check_reference(op, sample, dtype)


def _check_reference(op: Op, sample: Sample, dtype: str) -> None:
    inputs = typed_inputs(sample, dtype)
    graph = forward_graph(op, types_of(inputs, {}), sample.attrs)
    verify(graph)
    results = run(graph, [a for _, a in inputs])
    for result, value in zip(results, graph.outputs, strict=True):
        assert result.shape == value.type.shape
        assert result.dtype == value.type.dtype.carrier
    if sample.torch is None:
        return
    expected, dtypes = torch_outputs(sample, inputs)
    assert len(results) == len(expected)
    for i, (value, wanted, kind) in enumerate(zip(graph.outputs, expected, dtypes, strict=True)):
        if kind is not None:
            assert value.type.dtype.name == kind, f"output {i} is {value.type}, torch's is {kind}"
        assert_close(results[i], wanted, value.type.dtype.name, sample.tol, f"output {i}")


# --------------------------------------------------------------------------------------- gradients
@pytest.mark.parametrize("op, sample", _GRADS)
def test_gradient(op: Op, sample: Sample) -> None:
    inputs = typed_inputs(sample, "float64")
    arrays = [a for _, a in inputs]
    types = types_of(inputs, {})
    _, node = apply(op, types, sample.attrs)
    floats = [v.index for v in node.outputs if v.type.dtype.is_float]
    for only in [None, *floats] if len(floats) > 1 else [None]:
        graph, have = gradient_graph(op, types, sample.attrs, only)
        verify(graph)
        wanted = floats if only is None else [only]
        cotangents = {i: _weights(node.outputs[i].type.shape, i) for i in wanted}
        grads = dict(zip(have, run(graph, [*arrays, *cotangents.values()]), strict=True))
        if sample.grad == "torch":
            expected = _autograd(sample, arrays, cotangents)
        else:
            expected = _differences(op, arrays, dict(node.attrs), cotangents)
        for i, want in expected.items():
            got = grads.get(i, np.zeros_like(arrays[i]))
            known = ~np.isnan(want) if sample.grad == "fd" else np.ones(want.shape, bool)
            np.testing.assert_allclose(
                got[known], want[known], GRAD_RTOL * sample.tol, GRAD_ATOL * sample.tol,
                err_msg=f"operand {i}, cotangent of {'all' if only is None else only}",
            )  # fmt: skip


@pytest.mark.parametrize("op, sample", _GRADS)
def test_gradient_keeps_the_type(op: Op, sample: Sample) -> None:
    for dtype in sample.dtypes[1:]:
        graph, _ = gradient_graph(op, types_of(typed_inputs(sample, dtype), {}), sample.attrs)
        verify(graph, after=f"the gradient of {op.name} in {dtype}")


@pytest.mark.parametrize("op, sample", _SECOND)
def test_gradient_of_gradient(op: Op, sample: Sample) -> None:
    inputs = typed_inputs(sample, "float64")
    arrays = [a for _, a in inputs]
    first, have = gradient_graph(op, types_of(inputs, {}), sample.attrs)
    wrt = [i for i, a in enumerate(arrays) if a.dtype == np.float64]
    if not have or not wrt:
        return
    cotangents = [_weights(v.type.shape, i) for i, v in enumerate(first.inputs[len(arrays) :])]
    weights = [_weights(v.type.shape, 7 + i) for i, v in enumerate(first.outputs)]
    second = pullback(first, wrt)
    verify(second)
    grads = run(second, [*arrays, *cotangents, *weights])
    rng = np.random.default_rng(5)
    directions = {i: rng.uniform(-1, 1, arrays[i].shape) for i in wrt}

    def along(t: float) -> float:
        moved = [a + t * directions[i] if i in directions else a for i, a in enumerate(arrays)]
        out = run(first, [*moved, *cotangents])
        return float(sum((w * o).sum() for w, o in zip(weights, out, strict=True)))

    numeric = (along(STEP) - along(-STEP)) / (2 * STEP)
    exact = sum(float((g * directions[i]).sum()) for g, i in zip(grads, wrt, strict=True))
    scale = max(1.0, sum(float(np.abs(g).sum()) for g in grads))
    assert abs(numeric - exact) <= 1e-6 * sample.tol * scale, (numeric, exact)


def _weights(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng([3, seed]).uniform(0.5, 1.5, shape)


def _differences(
    op: Op, arrays: list[Array], attrs: dict[str, object], cotangents: dict[int, Array]
) -> dict[int, Array]:
    """Central differences of sum(cotangent * output) in float64; NaN where it did not probe."""

    def total() -> float:
        with np.errstate(all="ignore"):
            out = op.ref(*arrays, **attrs)
        many = out if isinstance(out, tuple) else (out,)
        return float(sum((w * many[i]).sum() for i, w in cotangents.items()))

    found: dict[int, Array] = {}
    for i, array in enumerate(arrays):
        if array.dtype != np.float64:
            continue
        slopes = np.full(array.shape, np.nan)
        moved = arrays[i] = array.copy()
        probes = np.random.default_rng(1).permutation(array.size)[:MAX_PROBES]
        for at in probes:
            place = np.unravel_index(at, array.shape)
            step = STEP * max(1.0, abs(float(array[place])))
            moved[place] = array[place] + step
            above = total()
            moved[place] = array[place] - step
            slopes[place] = (above - total()) / (2 * step)
            moved[place] = array[place]
        arrays[i] = array
        found[i] = slopes
    return found


def _autograd(
    sample: Sample, arrays: list[Array], cotangents: dict[int, Array]
) -> dict[int, Array]:
    assert sample.torch is not None
    tensors = [torch.from_numpy(np.array(a)) for a in arrays]
    for t in tensors:
        t.requires_grad_(t.dtype == torch.float64)
    out = sample.torch(*tensors, **sample.attrs)
    many = out if isinstance(out, (tuple, list)) else [out]
    total = sum((many[i] * torch.from_numpy(w)).sum() for i, w in cotangents.items())
    leaves = {i: t for i, t in enumerate(tensors) if t.requires_grad}
    grads = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    return {i: g.numpy() for i, g in zip(leaves, grads, strict=True)}


# -------------------------------------------------------------------------------- text and symbols
@pytest.mark.parametrize(
    "op, sample", [c for c in _CASES if (c.values[0].name, "text") not in HOLES]
)
def test_text(op: Op, sample: Sample) -> None:
    inputs = typed_inputs(sample, sample.dtypes[0])
    graph = forward_graph(op, types_of(inputs, {}), sample.attrs)
    text = print_graph(graph)
    again = parse_graph(text)
    verify(again)
    assert print_graph(again) == text
    arrays = [a for _, a in inputs]
    for a, b in zip(run(graph, arrays), run(again, arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def _symbolic_sizes(sample: Sample) -> list[int]:
    sizes = {n for a in sample.inputs for n in np.shape(a) if n > 1}
    return sorted(sizes - set(sample.static))


@pytest.mark.parametrize("op, sample", [c for c in _CASES if _symbolic_sizes(c.values[1])])
def test_symbolic(op: Op, sample: Sample) -> None:
    for size in _symbolic_sizes(sample):
        _check_symbolic(op, sample, size)


def _check_symbolic(op: Op, sample: Sample, size: int) -> None:
    inputs = typed_inputs(sample, sample.dtypes[0])
    arrays = [a for _, a in inputs]
    sizes = {size: symbol("n", 2)}
    types, attrs = types_of(inputs, sizes), attrs_of(op, sample, sizes)
    graph = forward_graph(op, types, attrs)
    verify(graph)
    static = forward_graph(op, types_of(inputs, {}), sample.attrs)
    for value, plain in zip(graph.outputs, static.outputs, strict=True):
        assert value.type.dtype is plain.type.dtype
        assert tuple(evaluate(d, {"n": size}) for d in value.type.shape) == plain.type.shape
    for a, b in zip(run(graph, arrays), run(static, arrays), strict=True):
        np.testing.assert_array_equal(a, b)
    if (op.name, "text") not in HOLES:
        text = print_graph(graph)
        assert print_graph(parse_graph(text)) == text
    if not _has_gradient(op, sample):
        return
    grad, have = gradient_graph(op, types, attrs)
    verify(grad)
    plain_grad, plain_have = gradient_graph(op, types_of(inputs, {}), sample.attrs)
    assert have == plain_have
    cotangents = [_weights(v.type.shape, i) for i, v in enumerate(plain_grad.inputs[len(arrays) :])]
    everything = [*arrays, *cotangents]
    for a, b in zip(run(grad, everything), run(plain_grad, everything), strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-9)
