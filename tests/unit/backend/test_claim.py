"""One process makes a file of the cache, the others wait; no wait is for ever."""

import fcntl
import os
import subprocess
import sys
from threading import Event

import pytest

from glasshouse.backend import claim
from glasshouse.backend.claim import claimed
from glasshouse.errors import BuildError

# Claims a file, says so, and holds it until its input ends.
_HOLDER = """
import sys
from pathlib import Path
from glasshouse.backend.claim import claimed
with claimed(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the claim on `made.so`."""
    made = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path / "made.so")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert made.stdout.readline() == "True\n"
    yield made
    made.kill()
    made.communicate()


def test_a_claim_is_held_by_one_thread_of_one_process_and_given_back(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSHOUSE_BUILD_WAIT", "0")
    with claimed(tmp_path / "made.so") as first, claimed(tmp_path / "made.so") as second:
        assert (first, second) == (True, False)
    with claimed(tmp_path / "made.so") as again, claimed(tmp_path / "other.so") as other:
        assert again
        assert other


def test_who_waits_too_long_goes_on_and_says_so(tmp_path, holder, monkeypatch, caplog):
    monkeypatch.setenv("GLASSHOUSE_BUILD_WAIT", "0.01")
    with claimed(tmp_path / "made.so") as mine:
        assert not mine
    assert "building it here as well" in caplog.text


def test_a_process_that_dies_loses_its_claim(tmp_path, holder):
    holder.kill()  # while this process waits, for all that is known
    with claimed(tmp_path / "made.so") as mine:
        assert mine


@pytest.fixture
def rank_1(monkeypatch):
    """This process as rank 1; the naps that it takes while rank 0 is not there yet."""
    naps = []
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(claim, "_own_programs", Event())
    monkeypatch.setattr(claim.time, "sleep", naps.append)
    return naps


def test_other_ranks_leave_a_file_to_rank_0(tmp_path, rank_1, monkeypatch):
    def nap(seconds):
        rank_1.append(seconds)
        if len(rank_1) == 3:
            (tmp_path / "made.so").touch()  # by rank 0

    monkeypatch.setattr(claim.time, "sleep", nap)
    monkeypatch.setattr(claim, "_GRACE", 1e9)
    monkeypatch.setenv("GLASSHOUSE_BUILD_WAIT", "1e9")
    with claimed(tmp_path / "made.so") as mine:
        assert mine
    assert len(rank_1) == 3


def test_another_rank_that_looks_is_no_builder(tmp_path, rank_1, monkeypatch):
    monkeypatch.setattr(claim, "_GRACE", 0.0)
    looks = os.open(tmp_path / "made.claim", os.O_RDWR | os.O_CREAT)
    fcntl.flock(looks, fcntl.LOCK_SH)
    monkeypatch.setattr(claim.time, "sleep", lambda _: fcntl.flock(looks, fcntl.LOCK_UN))
    with claimed(tmp_path / "made.so") as mine:
        assert mine
    assert claim._own_programs.is_set()  # it was rank 0 that it waited for
    os.close(looks)


def test_a_rank_waits_in_vain_for_rank_0_once(tmp_path, rank_1, monkeypatch):
    monkeypatch.setattr(claim, "_GRACE", 0.0)
    for name in ("first.so", "second.so"):
        with claimed(tmp_path / name) as mine:
            assert mine
    assert len(rank_1) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_has_no_claims(tmp_path):
    tmp_path.chmod(0o500)
    with claimed(tmp_path / "made.so") as mine:
        assert not mine


def test_a_limit_that_is_no_number_is_said(tmp_path, holder, monkeypatch):
    monkeypatch.setenv("GLASSHOUSE_BUILD_WAIT", "soon")
    with pytest.raises(BuildError, match="GLASSHOUSE_BUILD_WAIT is 'soon'"):  # noqa: SIM117
        with claimed(tmp_path / "made.so"):
            pass
