"""Which steps are to blame: the smallest set of them found that still makes a run fail.

`fails(allows)` repeats a run in which step `n` is taken only if `allows(n)`, and says whether the
result is wrong. Leaving steps out can shift the numbers of later ones, so a set of numbers is only
a recipe; what is to blame is what the last failing run did take.
"""

from __future__ import annotations

from collections.abc import Callable

Allows = Callable[[int], bool]


def smallest_failing(count: int, fails: Callable[[Allows], bool], budget: int = 64) -> list[int]:
    """Numbers of steps that make the run fail, few of them; the last one completes the failure.

    First the shortest failing prefix, by halving; its last step alone, which most often is enough;
    then parts of the prefix are left out, halves before single steps. At most `budget` runs, beyond
    the logarithm of `count` for the prefix.
    """
    low, high = 0, count  # a prefix of `low` steps passes, one of `high` fails
    if fails(lambda n: False):
        return []
    while high - low > 1:
        middle = (low + high) // 2
        if fails(lambda n, m=middle: n < m):  # type: ignore[misc] # bound now
            high = middle
        else:
            low = middle
    last = high - 1
    if high > 1 and fails(lambda n: n == last):
        return [last]
    kept = list(range(high))
    size = max(len(kept) // 2, 1)
    runs = 0
    while len(kept) > 1:
        smaller = False
        for begin in range(0, len(kept), size):
            rest = kept[:begin] + kept[begin + size :]
            if not rest or runs >= budget:
                continue
            runs += 1
            chosen = frozenset(rest)
            if fails(chosen.__contains__):
                kept, smaller = rest, True
                break
        if not smaller:
            if size == 1 or runs >= budget:
                break
            size = max(size // 2, 1)
        else:
            size = min(size, max(len(kept) // 2, 1))
    return kept
