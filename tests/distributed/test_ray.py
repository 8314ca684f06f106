"""Tasks on a real Ray cluster of two nodes on this machine, with processes that are killed."""

import os
import signal

import pytest

import glasshouse as gh

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]

MODELS = """
import os, signal
from pathlib import Path
import numpy as np
from glasshouse import nn

def made(width):
    return nn.Sequential(nn.Linear(4, width), nn.ReLU()), (np.ones((2, 4), np.float32),)

def a(): return made(3)
def b(): return made(5)

def dies():
    '''Kills the process that works on it, twice.'''
    here = Path(__file__).with_name("died")
    times = len(here.read_text()) if here.exists() else 0
    if times < 2:
        here.write_text("x" * (times + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return made(3)
"""


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # beside other work, 15 means hours
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSHOUSE_CACHE", f"file://{tmp_path}/store")
    monkeypatch.setenv("GLASSHOUSE_CACHE_KEY", "k" * 32)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
    path = tmp_path / "models.py"
    path.write_text(MODELS)
    return path


def test_models_are_built_on_the_cluster_and_found_here(cluster, models, caplog):
    names = [f"{models}:{name}" for name in ("a", "b", "dies")]
    reports = gh.distributed.compile(names, ray=cluster.address)
    assert [r.error for r in reports] == ["", "", ""]
    assert all(r.kernels for r in reports)
    assert models.with_name("died").read_text() == "xx"

    from glasshouse.model_argument import read_model
    from glasshouse.runtime.compiler import compile_optimized

    with caplog.at_level("INFO", "glasshouse.build"):
        compile_optimized(read_model(names[0]).graph)  # by way of the store
    assert "files to build" not in caplog.text
    again = gh.distributed.compile(names, ray=cluster.address)
    assert [r.known for r in again] == [True] * 3


def test_a_driver_that_was_killed_goes_on_where_it_was(cluster, models, tmp_path):
    """The driver dies after its first task; another one has only the rest to do."""
    names = [f"{models}:{name}" for name in ("a", "b")]
    pid = os.fork()
    if pid == 0:

        def die(done, total, name):
            os.kill(os.getpid(), signal.SIGKILL)

        gh.distributed.compile(names[:1], progress=die)  # on this machine: Ray does not fork
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    done = []
    reports = gh.distributed.compile(names, ray=cluster.address, progress=lambda *t: done.append(t))
    assert [r.error for r in reports] == ["", ""]
    assert done[-1][:2] == (4, 4)
