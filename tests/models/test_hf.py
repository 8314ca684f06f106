"""Hugging Face models from small random configs: traced, run, compiled, equal to PyTorch.

Two of them always, all of them with the slow tests; docs/models.md is held to the two.
"""

import subprocess
import sys

import pytest

pytest.importorskip("transformers")

import generate_model_table
from hf_models import CASES
from hf_models.measure import measure

LIMIT = 1e-4
QUICK = ("bert", "resnet")


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_equals_pytorch(name):
    found = measure(name)
    assert found.reference <= LIMIT
    assert isinstance(found.compiled, str) or found.compiled <= LIMIT
    if name in QUICK:
        line = generate_model_table.read()[name]
        told, now = (text.split("|")[1:5] for text in (line, generate_model_table.row(found)))
        assert told == now, "run tools/generate_model_table.py"


def test_the_table_has_every_model_and_none_above_the_limit():
    subprocess.run([sys.executable, generate_model_table.__file__, "--check"], check=True)
    assert "**" not in generate_model_table.PATH.read_text(encoding="utf-8")
