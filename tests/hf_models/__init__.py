"""Small Hugging Face models with random weights: what each is built from, and inputs for it.

Nothing is downloaded. Sizes are as small as a model's structure allows: two layers, four heads.
One file a family; `FAMILIES` is the order of the table in docs/models.md.
"""

from __future__ import annotations

import torch

from hf_models import (
    decoders,
    encoders,
    mixtures,
    regions,
    sequence,
    series,
    several,
    sound,
    vision,
)
from hf_models.common import CASES, Case

FAMILIES = {
    family.__doc__.removesuffix(", from small configs."): [
        name for name, make in CASES.items() if make.__module__ == family.__name__
    ]
    for family in (encoders, decoders, mixtures, sequence, vision, regions, sound, several, series)
}
"""What a family is called -> the names of its models."""


def build(name: str) -> Case:
    """A model in evaluation and its inputs, the same each time."""
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    return model.eval(), inputs
