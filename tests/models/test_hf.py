"""Hugging Face models from small random configs: traced, run on the reference, equal to PyTorch."""

import pytest

pytest.importorskip("transformers")

from frontend_torch import compare
from glasshouse.frontend.torch import capture
from glasshouse.ir import verify
from hf_models import CASES, build

QUICK = ("bert", "gpt2", "resnet")
# It selects patches at random, so two runs of the model itself differ.
NOT_COMPARABLE = ("vilt",)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in CASES
        if name not in NOT_COMPARABLE
    ],
)
def test_equals_pytorch(name):
    model, inputs = build(name)
    captured = capture(model, (), inputs)
    verify(captured.graph)
    compare(captured, model, (), inputs, 1e-4)
