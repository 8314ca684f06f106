"""How many threads kernels run on: a module's own number, or the process's."""

import copy

import numpy as np

import glasshouse as gh
from glasshouse.backend.cpu import threads as threads_of_modules
from glasshouse.backend.cpu.threads import default_threads


def _threads(module) -> int:
    """Threads of the pool that a module's kernels run on."""
    pool = module._executable._pool
    (count,) = {
        threads or default_threads()
        for (_, threads), (made, _) in threads_of_modules._made.items()
        if made.value == pool.value
    }
    return count


def test_a_budget_of_threads_is_the_process_s_or_a_module_s(monkeypatch, tmp_path):
    x = np.ones(3, np.float32)
    before = default_threads()
    monkeypatch.setenv("GLASSHOUSE_THREADS", str(before))  # put back at the end
    plain, own, one = (gh.compile(gh.relu, x, threads=n) for n in (None, 3, 1))
    assert [_threads(m) for m in (plain, own, one)] == [before, 3, 1]
    try:
        gh.set_threads(before + 4)
        assert [_threads(m) for m in (plain, own, one)] == [before + 4, 3, 1]
    finally:
        gh.set_threads(before)
    assert dict(own.recording(x, count=1).header.facts)["threads"] == "3"
    assert _threads(gh.load(own.save(tmp_path / "saved"), threads=2)) == 2
    assert _threads(copy.deepcopy(own)) == 3
    np.testing.assert_array_equal(one(x), own(x))
    gh.compile(gh.relu, x, threads=2, target="interp")  # which has no use for it
