"""Samples of arithmetic, comparison and logic."""

from __future__ import annotations

import torch
from ops.samples.sample import FLOATS, INTS, Sample, away, integers, values

_PAIRS = [
    ((3, 4), (3, 4)),
    ((2, 3, 4), (4,)),
    ((3, 1), (1, 5)),
    ((), (3,)),
    ((), ()),
    ((0, 4), (1, 4)),
]


def _binary(f, **kw):
    return [Sample((values(*a), values(*b, seed=1)), f, dtypes=FLOATS, **kw) for a, b in _PAIRS] + [
        Sample((integers(3, 4), integers(4, seed=1)), f, dtypes=INTS, **kw)
    ]


SAMPLES = {
    "add": _binary(torch.add),
    "subtract": _binary(torch.sub),
    "multiply": _binary(torch.mul),
    "negative": [Sample((values(3, 4),), torch.neg), Sample((values(),), torch.neg), Sample((values(0, 3),), torch.neg)],
    "relu": [Sample((away(values(3, 4), 0.0),), torch.relu), Sample((values(),), torch.relu), Sample((values(0, 3),), torch.relu)],
}
