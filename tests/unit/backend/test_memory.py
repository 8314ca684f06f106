"""Memory of the host: where it begins, and how much of it is in large pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from glasshouse.backend.memory import ALIGN, LARGE_PAGE, aligned_bytes


def _may_be_large(address: int) -> bool:
    """Whether large pages were asked for in the mapping that holds an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        first, *rest = line.split()
        if "-" in first and not first.endswith(":"):
            begin, end = (int(x, 16) for x in first.split("-"))
            inside = begin <= address < end
        elif inside and first == "VmFlags:":
            return "hg" in rest
    raise ValueError(f"no mapping holds {address:#x}")


@pytest.mark.parametrize("count", [0, 1, 100, LARGE_PAGE // 2, LARGE_PAGE, 3 * LARGE_PAGE + 5])
def test_memory_is_zeroed_aligned_and_as_long_as_asked_for(count: int) -> None:
    made = aligned_bytes(count)
    assert made.size == max(count, 1)
    assert made.ctypes.data % ALIGN == 0
    assert not made.any()
    made[:] = 1


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells of large pages")
@pytest.mark.parametrize(("rest", "large"), [(64 << 10, False), (LARGE_PAGE - 1, True)])
def test_a_large_page_of_which_little_is_used_is_none(rest: int, large: bool) -> None:
    made = aligned_bytes(2 * LARGE_PAGE + rest)
    first, last = made.ctypes.data, made.ctypes.data + made.size - 1
    if not _may_be_large(first):
        pytest.skip("a kernel without large pages")
    assert _may_be_large(first + 2 * LARGE_PAGE - 1)
    assert _may_be_large(last) is large
