"""What ops declare besides their meaning is true of it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir.op import REGISTRY, Kind, Op

OPS = list(REGISTRY.values())


def _are(names: set[str], chosen: list[Op]) -> None:
    assert {o.name for o in chosen} == names


def test_views_read_one_operand_and_compute_nothing() -> None:
    views = [o for o in OPS if o.traits.view]
    _are({"reshape", "permute", "rearrange", "slice", "expand"}, views)
    assert all(o.kind is Kind.INJECTIVE and o.max_inputs == 1 for o in views)
    assert {o.traits.view for o in views} == {"whole", "part", "repeat"}


def test_what_computes_has_a_cost() -> None:
    for op in OPS:
        cost = op.traits.cost
        assert cost is None or cost > 0, op
        if op.kind is Kind.ELEMENTWISE and op.family in ("math", "activation"):
            whole = op.name in ("floor", "ceil", "round", "trunc", "relu")
            assert whole or cost is not None, f"{op.name} is a function: what does it cost?"


@pytest.mark.parametrize("op", [o for o in OPS if o.traits.never_negative], ids=lambda o: o.name)
def test_what_is_never_negative_is_not(op: Op) -> None:
    x = np.linspace(-6.0, 6.0, 97, dtype=np.float32)
    if op.name in ("sqrt", "rsqrt"):
        x = np.abs(x)
    keywords = {n: a.default for n, a in op.attrs.items()}
    with np.errstate(all="ignore"):
        made = np.asarray(op.ref(x, **keywords))
    assert not (made < 0).any()


def test_what_is_not_a_function_of_its_operands_is_never_folded() -> None:
    for op in OPS:
        if op.family in ("random", "control", "opaque", "barrier"):
            assert not op.traits.folds, op
        if not op.traits.merges:
            assert not op.traits.folds, op


def test_traits_that_narrow_keep_floats() -> None:
    """What computes in a narrow type must not sum: rounding would add up."""
    for op in OPS:
        if op.traits.narrows:
            assert op.kind is not Kind.CONTRACTION, op
            assert op.kind is not Kind.REDUCTION or op.name in (
                "max", "min", "max_pool", "adaptive_max_pool",
            ), op  # fmt: skip


def test_onnx_ops_of_one_name_exist() -> None:
    onnx = pytest.importorskip("onnx")
    for op in OPS:
        if op.traits.onnx:
            schema = onnx.defs.get_schema(op.traits.onnx)
            inputs = len(inspect.signature(op.infer).parameters) if op.max_inputs is None else 0
            assert (inputs or op.max_inputs) == schema.max_input, op
