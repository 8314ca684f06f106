"""What eager PyTorch's settings ask of a GPU, and what tracing for one changes meanwhile."""

from __future__ import annotations

import pytest
import torch

from glasshouse.frontend.torch.devices import GpuOf, asked_precision, plain_ops
from glasshouse.passes import PassContext

GPU = GpuOf("cuda:0", "cuda")


@pytest.mark.parametrize(
    ("convolutions", "products", "word"),
    [
        (True, "highest", "tf32_convolutions"),
        (True, "high", "tf32"),
        (False, "high", "tf32_products"),
        (False, "highest", None),
    ],
)
def test_float32_rounds_where_pytorch_rounds_it(
    monkeypatch: pytest.MonkeyPatch, convolutions: bool, products: str, word: str | None
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", convolutions)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(products)
    try:
        assert asked_precision("cuda") == word
        assert asked_precision(None) is None
        with PassContext(precision="float32"):
            assert asked_precision("cuda") is None
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_graph_that_is_compiled_while_it_is_traced_rounds_all_the_same(
    monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(torch.backends.cudnn, "enabled", enabled)
    outside = asked_precision("cuda")
    assert outside == ("tf32_convolutions" if enabled else None)
    with plain_ops(GPU):
        assert not torch.backends.cudnn.enabled
        assert asked_precision("cuda") == outside
        with plain_ops(GPU):
            assert asked_precision("cuda") == outside
    assert torch.backends.cudnn.enabled is enabled


def test_a_process_may_have_forbidden_to_assign_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.backends.cudnn.enabled
    monkeypatch.setattr(torch.backends, "__allow_nonbracketed_mutation_flag", False)
    with plain_ops(GPU):
        assert not torch.backends.cudnn.enabled
    assert torch.backends.cudnn.enabled is before
