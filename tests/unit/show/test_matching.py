"""Nodes of two files are the same by name in their module before their numbered names."""

from __future__ import annotations

import torch
from torch import nn

import glasshouse as gh
from glasshouse.record import Recording
from glasshouse.show.compare import Difference, Side, compare
from glasshouse.show.subject import recording_of


class Two(nn.Module):
    def __init__(self, *, stem: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(8, 8), nn.ReLU()) if stem else None
        self.first = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.last = nn.Sequential(nn.Linear(8, 4), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x if self.stem is None else self.stem(x)))


def side(recording: Recording, name: str) -> Side:
    return Side(recording, recording.stage(0, len(recording.graphs[0].info.stages) - 1), name)


def compared(a: nn.Module, b: nn.Module) -> Difference:
    x = torch.zeros(2, 8)
    return compare(*(side(recording_of(gh.trace(m, x)), n) for m, n in ((a, "a"), (b, "b"))))


def test_a_layer_in_front_is_all_that_was_added() -> None:
    """The exporter calls the ReLUs relu, relu_1, relu_2: each is one further on now."""
    found = compared(Two(stem=False), Two(stem=True))
    assert found.removed == []
    assert "Relu relu" in found.added
    assert not [line for line in found.added if line.endswith(("_1", "_2"))]


def test_the_same_model_does_not_differ() -> None:
    found = compared(Two(stem=True), Two(stem=True))
    assert (found.nodes, found.same > 10) == (0, True)
