"""Calls left to PyTorch, written out once: the same results as the op's, nobody's memory shared."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from glasshouse.frontend.torch.opaque import Hole, TorchCall, _quickest  # noqa: E402
from glasshouse.runtime.tensor_check import never  # noqa: E402


class Plain:
    """A step that takes every result as it is."""

    def __init__(self, results: int = 1) -> None:
        self.loose = [False] * results

    def taken(self, found: Any) -> Any:
        return found, never

    def failed(self, operands: Any, error: Exception) -> Exception:
        return error


def call(target: str, *args: Any, results: tuple[int, ...] = (0,), **kwargs: Any) -> TorchCall:
    return TorchCall(target, args, kwargs, (), results)


def test_an_op_that_is_alone_with_its_name_is_called_by_pytorchs_own_function() -> None:
    x = Hole(0, torch.float32)
    svd = _quickest(call("aten.linalg_svd.default", x))
    assert svd is torch._C._linalg.linalg_svd  # its other overload only fills given tensors
    assert _quickest(call("aten.add.Tensor", x, x)) is torch.ops.aten.add.Tensor
    assert _quickest(call("aten.sum.default", x)) is torch.ops.aten.sum.default
    named = call("aten.erfinv.default", self=x)
    assert _quickest(named) is torch.ops.aten.erfinv.default


@pytest.mark.parametrize("grad", [False, True])
def test_results_are_those_of_the_op(grad: bool) -> None:
    x = torch.randn(5, 3)
    x0 = Hole(0, torch.float32)
    svd = call("aten.linalg_svd.default", x0, False, results=(2, 0))
    svd = svd.prepared([torch.float32], Plain(2))
    with torch.set_grad_enabled(grad):
        found = svd(x)
        assert torch.is_grad_enabled() is grad
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    assert torch.equal(found[0], v)
    assert torch.equal(found[1], u)


def test_a_failing_call_leaves_gradients_on() -> None:
    bad = call("aten.linalg_svd.default", Hole(0, torch.float32)).prepared([torch.float32], Plain())
    with torch.enable_grad():
        with pytest.raises(RuntimeError):
            bad(torch.randn(3))
        assert torch.is_grad_enabled()


def test_what_an_op_gives_back_is_copied() -> None:
    x = torch.randn(4)
    same = call("aten.dropout.default", Hole(0, torch.float32), 0.5, False)
    (found,) = same.prepared([torch.float32], Plain())(x)
    assert torch.equal(found, x)
    assert found.data_ptr() != x.data_ptr()


def test_operands_of_another_type_are_cast() -> None:
    x = torch.randn(4, 4)
    values = call("aten.linalg_svdvals.default", Hole(0, torch.float64))
    (found,) = values.prepared([torch.float32], Plain())(x)
    assert torch.equal(found, torch.linalg.svdvals(x.double()))


def test_complex_results_are_pairs_and_lists_are_flat() -> None:
    x = torch.randn(4, 4)
    values = call("aten.linalg_eigvals.default", Hole(0, torch.float32))
    (found,) = values.prepared([torch.float32], Plain())(x)
    assert torch.equal(found, torch.view_as_real(torch.linalg.eigvals(x)))
    given = Hole(0, torch.float32)
    grid = call("aten.meshgrid.indexing", [given, given], results=(1,), indexing="ij")
    (second,) = grid.prepared([torch.float32], Plain())(x[0])
    assert torch.equal(second, torch.meshgrid(x[0], x[0], indexing="ij")[1])


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("shape", "mask"), [((6, 4), 6), ((6,), 6), ((6, 0), 6), ((0, 4), 0), ((2, 3, 4), (2, 3))]
)
def test_rows_of_a_mask_are_those_of_the_op(shape: Any, mask: Any, kept: float) -> None:
    index = call("aten.index.Tensor", Hole(0, torch.float32), [Hole(1, torch.bool)])
    prepared = index.prepared([torch.float32, torch.bool], Plain())
    x, chosen = torch.randn(shape), torch.rand(mask) < kept
    assert torch.equal(prepared(x, chosen)[0], x[chosen])
    turned = torch.randn(shape[::-1]).permute(*range(len(shape))[::-1])
    assert torch.equal(prepared(turned, chosen)[0], turned[chosen])


def test_a_mask_of_another_size_is_refused_as_by_the_op() -> None:
    index = call("aten.index.Tensor", Hole(0, torch.float32), [Hole(1, torch.bool)])
    prepared = index.prepared([torch.float32, torch.bool], Plain())
    with pytest.raises(IndexError, match="does not match the shape of the indexed tensor"):
        prepared(torch.randn(6, 4), torch.ones(5, dtype=torch.bool))
