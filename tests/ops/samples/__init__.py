"""Which samples there are: those of every file in this folder, one for each family.

Each file gives `SAMPLES`, op name -> samples, and may give `HOLES`, (op name, crossing) -> reason.
The crossings are listed in `CROSSINGS`; what is neither covered nor declared fails the test.
"""

from __future__ import annotations

import importlib
import pkgutil

from ops.samples.sample import Sample

CROSSINGS = {
    "samples": "at least two samples",
    "torch": "a comparison with torch",
    "half": "float16 and bfloat16 operands",
    "empty": "an operand or output without elements",
    "scalar": "an operand with no dimensions",
    "broadcast": "operands of different shapes",
    "gradient": "a checked gradient",
    "second": "a checked gradient of the gradient",
    "text": "printing and parsing",
    "symbolic": "symbolic sizes, inferred and run",
}


def _collect() -> tuple[dict[str, list[Sample]], dict[tuple[str, str], str]]:
    samples: dict[str, list[Sample]] = {}
    holes: dict[tuple[str, str], str] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name == "sample":
            continue
        family = importlib.import_module(f"{__name__}.{module.name}")
        for name, given in family.SAMPLES.items():
            if name in samples:
                raise ValueError(f"two files have samples of {name}")
            samples[name] = list(given)
        for key, reason in getattr(family, "HOLES", {}).items():
            if key[1] not in CROSSINGS:
                raise ValueError(f"{key}: there is no crossing {key[1]!r}")
            if key in holes or not reason:
                raise ValueError(f"{key} is declared twice or without a reason")
            holes[key] = reason
    return samples, holes


SAMPLES, HOLES = _collect()
