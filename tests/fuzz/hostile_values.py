"""Campaign: the patterns of `hostile.patterns` in random shapes, types and fills, against PyTorch.

Each round compiles some patterns as one model, fused, and calls it with hostile operands until it
has seen all fills; a difference that `hostile.known` does not list is a finding.
"""

from __future__ import annotations

import random
import time
import warnings

import numpy as np
import torch

import glasshouse as gh
from fuzz.report import Report
from glasshouse.errors import GlasshouseError
from hostile.known import PATTERNS as KNOWN
from hostile.ops import RTOL
from hostile.patterns import PATTERNS, WIDTH, All, eager, nearest
from hostile.values import FILLS, filled

NAME = "hostile_values"
OVERFLOWS = {("prod", "float64"), ("layer_norm by hand", "float64")}
"""Products that overflow in another order at these shapes, and means of distances from the first
element, which do not overflow where sums do; known.py has narrower types at its."""


def run(seed: int, until: float, report: Report) -> None:
    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    while time.monotonic() < until:
        _round(rng.randrange(1 << 32), until, report)


def _round(seed: int, until: float, report: Report) -> None:
    rng = random.Random(seed)
    names = rng.sample(list(PATTERNS), 12)
    dtype, rows = rng.choice(list(RTOL)), rng.choice([1, 2, 3, 7, 16, 33])
    kind = getattr(torch, dtype)
    again = f"python -c 'from fuzz.hostile_values import again; again({seed})'"
    report.case(again)
    w = torch.linspace(-1.4, 1.3, WIDTH).to(kind)
    try:
        module = gh.compile(All(names), torch.zeros(rows, WIDTH, dtype=kind), w)
    except GlasshouseError as error:
        report.found(f"{names} of {dtype} is refused", str(error), again)
        return
    for fill in FILLS:
        if time.monotonic() >= until:
            return
        report.case(f"{again}  # {fill}")
        x = torch.from_numpy(np.array(filled(fill, (rows, WIDTH), dtype))).to(kind)
        sizes = x[x.isfinite()].abs().double()
        scale = float(sizes.max()) if sizes.numel() else 0.0
        for name, ours in zip(names, module(x, w), strict=True):
            theirs = [_array(t) for t in eager(name, x, w)]
            said = nearest(_array(ours), theirs, dtype, scale)
            known = any(row.covers(name, fill, dtype, "fused") for row in KNOWN)
            if said and not known and (name, dtype) not in OVERFLOWS:
                report.found(
                    f"{name} of {dtype}: {said.split(' at ')[0]}", f"{fill}: {said}", again
                )


def again(seed: int) -> None:
    """Run one round and print what it finds."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        _round(seed, time.monotonic() + 600, Report(Path(folder)))
        found = Path(folder, "findings.jsonl")
        print(found.read_text() if found.exists() else "nothing")


def _array(t: torch.Tensor) -> np.ndarray:
    return (t.float() if t.dtype is torch.bfloat16 else t).detach().numpy()
