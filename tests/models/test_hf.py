"""Hugging Face models from small random configs: traced, run, compiled, equal to PyTorch.

Three of them always, all of them with the slow tests.
"""

import pytest

pytest.importorskip("transformers")

from hf_models import CASES
from hf_models.measure import measure

LIMIT = 1e-4
QUICK = ("bert", "gpt2", "resnet")


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_equals_pytorch(name):
    found = measure(name)
    assert found.reference <= LIMIT
    assert isinstance(found.compiled, str) or found.compiled <= LIMIT
