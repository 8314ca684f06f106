"""What is measured of a saved module: how much memory a program needs that only runs it.

python benchmarks/cpu/deployed.py FOLDER: prints megabytes. No torch, no compiler, no graph.
"""

from __future__ import annotations

import sys

import numpy as np
from peak import peak_mb

import glasshouse as gh


def main() -> None:
    folder = sys.argv[1]
    module = gh.load(folder)
    with np.load(f"{folder}/inputs.npz") as given:
        inputs = [given[name] for name in given.files]
    for _ in range(3):
        module(*inputs)
    assert "torch" not in sys.modules
    print(peak_mb())


if __name__ == "__main__":
    main()
