"""Samples of the barrier, which changes nothing."""

from __future__ import annotations

import torch

from ops.samples.sample import INTS, Sample, integers, values

SAMPLES = {
    "barrier": [
        *[Sample((values(*shape),), torch.clone) for shape in [(3, 4), (), (0, 2)]],
        Sample((integers(5),), torch.clone, dtypes=INTS),
    ]
}
