"""Processes that want the same program at the same time: one builds it, the others wait for it."""

import os
import signal
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


def started(cache, **environment):
    """A process that will compile the model once its input is closed."""
    given = {"GLASSHOUSE_CACHE": str(cache), "GLASSHOUSE_LOG": "info", **environment}
    return subprocess.Popen(
        [sys.executable, "-c", _COMPILE], env={**os.environ, **given}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def let_go(rank):
    rank.stdin.close()
    rank.stdin = None


@pytest.mark.slow
def test_three_ranks_build_once(tmp_path):
    ranks = [started(tmp_path) for _ in range(3)]
    for rank in ranks:
        let_go(rank)
    out = [rank.communicate(timeout=300) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0], out
    assert len({result for result, _ in out}) == 1
    built = [said.count("files to build") for _, said in out]
    assert sorted(built) == [0, 0, 1], out


@pytest.mark.slow
def test_a_rank_that_dies_while_it_builds_is_replaced_by_one_that_waits(tmp_path):
    first = started(tmp_path, LOCAL_RANK="0", LOCAL_WORLD_SIZE="2")
    second = started(tmp_path, LOCAL_RANK="1", LOCAL_WORLD_SIZE="2")
    let_go(first)
    while "files to build" not in (said := first.stderr.readline()):
        assert said, "it ended before it built"
    first.send_signal(signal.SIGSTOP)  # however fast it is, it is not done before it dies
    let_go(second)
    while "waiting for it" not in (said := second.stderr.readline()):
        assert said, "it did not wait"
    first.kill()
    first.communicate()
    result, said = second.communicate(timeout=300)
    assert second.returncode == 0, said
    assert said.count("files to build") == 1
    later = started(tmp_path)
    let_go(later)
    again, said = later.communicate(timeout=300)
    assert again == result
    assert "files to build" not in said
