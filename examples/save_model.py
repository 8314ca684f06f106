"""Save a compiled model as a folder that runs without a compiler, and load it again.

    python examples/save_model.py [FOLDER]

examples/cpp runs the same folder from C++. Needs NumPy and a C++ compiler.
"""

import sys
from pathlib import Path

import numpy as np

import glasshouse as gh
from glasshouse import nn


def main(folder: str) -> None:
    gh.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    x = np.linspace(-1, 1, 4 * 64, dtype=np.float32).reshape(4, 64)

    module = gh.compile(model, x)
    module.save(folder)
    for path in sorted(Path(folder).iterdir()):
        print(f"  {path.name:<16} {path.stat().st_size:>8} bytes")

    again = gh.load(folder)
    print("the same results after loading:", np.array_equal(again(x), module(x)))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "saved")
