"""Processes that want the same program at the same time: one builds it, the others wait for it."""

import os
import subprocess
import sys

import pytest

# Prints its result; what is logged goes to stderr.
_COMPILE = """
import sys
import numpy as np, glasshouse as gh
from glasshouse import nn
gh.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
graph = gh.trace(model, x)
sys.stdin.read()  # until all are ready
print(gh.compile(graph)(x).tolist())
"""


@pytest.mark.slow
def test_three_ranks_build_once(tmp_path):
    environment = {**os.environ, "GLASSHOUSE_CACHE": str(tmp_path), "GLASSHOUSE_LOG": "info"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _COMPILE], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    for rank in ranks:
        rank.stdin.close()
        rank.stdin = None
    out = [rank.communicate(timeout=300) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0], out
    assert len({result for result, _ in out}) == 1
    built = [said.count("files to build") for _, said in out]
    assert sorted(built) == [0, 0, 1], out
