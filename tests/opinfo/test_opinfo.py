"""PyTorch's OpInfo samples hold: every op is in the state that `table.txt` declares for it."""

from __future__ import annotations

import zlib

import pytest

from opinfo.page import PAGE, text
from opinfo.samples import op_infos
from opinfo.suite import try_op
from opinfo.table import load, read

TABLE = load()
# An op that changes its state fails its own test; the sum is what people quote.
COUNTS = {"ok": 628, "opaque in part": 9, "opaque": 34, "skipped": 31}
# What these hold is not defined, so nothing can be said about it, not even that it differs.
UNDEFINED = "what it gives is memory that nobody wrote"


def _is_quick(name: str) -> bool:
    """A twentieth of the ops, spread over all families."""
    return zlib.crc32(name.encode()) % 20 == 0


@pytest.mark.filterwarnings("ignore")  # PyTorch deprecates and NumPy divides by zero
@pytest.mark.parametrize(
    "name",
    [n if _is_quick(n) else pytest.param(n, marks=pytest.mark.slow) for n in TABLE.states],
)
def test_op(name: str) -> None:
    state, reason = TABLE.states[name]
    if reason == UNDEFINED:
        pytest.skip(reason)
    found = try_op(name)
    if state == "skipped":  # and nothing but its reason says why: it must not work
        assert found.state in ("skipped", "failed"), f"{name} is {found.state}: {found}"
    else:
        assert found.state == state, f"{name} is {found.state}, declared {state}: {found}"
    if state != "skipped":
        more = {
            "captured by running once": found.loose,
            "no gradient": found.undifferentiated,
            "another gradient": found.differing,
        }
        for kind, seen in more.items():
            assert bool(seen) == (name in TABLE.more[kind]), f"{name}, {kind}: {found}"


def test_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{TABLE.text()}")
    assert TABLE.counts() == COUNTS


@pytest.mark.filterwarnings("ignore")
def test_table_names_every_op_of_pytorch() -> None:
    assert set(TABLE.states) == set(op_infos())
    for ops in TABLE.more.values():
        assert set(ops) <= set(TABLE.states)


def test_page_is_made_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == text(TABLE), "run `python -m opinfo.page`"


def test_an_op_has_one_state() -> None:
    with pytest.raises(AssertionError, match="abs stands in two sections"):
        read("[ok]\nabs\n[opaque: a reason]\nabs\n")
