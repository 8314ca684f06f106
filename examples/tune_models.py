"""Measure and build a set of models ahead, as tasks: afterwards `gh.compile` finds them built.

python examples/tune_models.py              on processes of this machine
python examples/tune_models.py ADDRESS      on a Ray cluster ("auto": this machine's)
"""

import sys
from typing import Any

import numpy as np

import glasshouse as gh
from glasshouse import nn


def mlp() -> tuple[nn.Module, tuple[Any, ...]]:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU()), (np.ones((8, 64), np.float32),)


def convolution() -> tuple[nn.Module, tuple[Any, ...]]:
    return nn.Conv2d(3, 8, 3, padding=1), (np.ones((1, 3, 32, 32), np.float32),)


def main(ray: str | None) -> None:
    reports = gh.distributed.compile(
        [f"{__file__}:{name}" for name in ("mlp", "convolution")],
        ray=ray,
        progress=lambda done, total, name: print(f"{done}/{total}", name.rpartition(":")[2]),
    )
    for r in reports:
        print(r.model.rpartition(":")[2], f"{r.nodes} nodes, {r.kernels} kernels", r.error)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
