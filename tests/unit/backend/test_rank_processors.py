"""Ranks that a launcher starts on one machine have processors of their own."""

import os

import pytest

from glasshouse.backend.cpu import threads


@pytest.fixture
def machine(monkeypatch):
    """Eight processors, all of which this process may use; what it keeps to in the end."""
    mask = set(range(8))
    monkeypatch.setattr(threads, "_before_pinning", [])
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(mask))

    def keep(pid, chosen):
        mask.clear()
        mask.update(chosen)

    monkeypatch.setattr(os, "sched_setaffinity", keep)
    for name in ("GLASSHOUSE_THREADS", "GLASSHOUSE_PIN", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return mask


def ranks(monkeypatch, rank, of):
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(of))


@pytest.mark.parametrize(("rank", "of", "kept"), [(0, 2, {0, 1, 2, 3}), (2, 3, {4, 5})])
def test_a_rank_keeps_to_its_share_and_has_as_many_threads(machine, monkeypatch, rank, of, kept):
    ranks(monkeypatch, rank, of)
    before = threads.default_threads()
    threads.pin_rank()
    assert machine == kept
    threads.pin_rank()  # a second pool
    assert machine == kept
    assert threads.default_threads() == before == len(kept)
    threads.leave_share()  # a thread that starts compilers
    assert machine == set(range(8))


@pytest.mark.parametrize(
    "name", ["GLASSHOUSE_THREADS", "GLASSHOUSE_PIN", "numactl", "alone", "many"]
)
def test_what_somebody_chose_stays(machine, monkeypatch, name):
    ranks(monkeypatch, 0, {"alone": 1, "many": 9}.get(name, 2))
    if name == "numactl":
        machine.discard(7)
    elif name.startswith("GLASSHOUSE"):
        monkeypatch.setenv(name, "0" if name == "GLASSHOUSE_PIN" else "2")
    before = set(machine)
    threads.pin_rank()
    assert machine == before
