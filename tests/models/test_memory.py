"""A model with 1 GB of weights is traced without a copy of them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "tracing.py"


@pytest.mark.slow
def test_a_gigabyte_of_weights_costs_a_few_megabytes():
    command = [sys.executable, "-W", "ignore", str(SCRIPT), "--peak", "trace"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(told.splitlines()[-1]) < 16
