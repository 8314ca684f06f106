"""Running statistics of batch norms: PyTorch's, and one node each once a loop repeats."""

import numpy as np
import torch

import glasshouse as gh
from glasshouse import nn
from glasshouse.tensor.pending import resolve


def test_a_repeated_update_is_one_node_and_what_pytorch_has():
    rng = np.random.default_rng(0)
    for momentum in (0.1, None):
        norm, theirs = (
            nn.BatchNorm1d(3, momentum=momentum),
            torch.nn.BatchNorm1d(3, momentum=momentum),
        )
        for step in range(4):
            data = rng.standard_normal((5, 3), np.float32)
            theirs(torch.from_numpy(data))
            norm(gh.array(data))
            kept = list(norm.buffers())
            if step == 3:
                assert all(resolve(t.value).node.stands_for is not None for t in kept)
            for mine, other in zip(kept, theirs.buffers(), strict=True):
                np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
