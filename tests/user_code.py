"""A user's file: lines that tests/unit/frontend/torch/test_origins.py looks for by their marks."""

import torch
from torch import nn


def rotated(x):
    return torch.flip(x, (-1,)) + helper(x)  # mark: rotated


def helper(x):
    scaled = x.exp()  # mark: helper
    return nn.functional.gelu(scaled)  # mark: gelu


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(4, 4)

    def forward(self, x):
        return rotated(self.query(x))  # mark: query


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.shared = nn.ReLU()

    def forward(self, x):
        x = self.shared(self.attention(x))  # mark: first use
        return self.shared(x - 1)  # mark: second use


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList([Layer(), Layer()])})

    def forward(self, x):
        for layer in self.encoder["layer"]:
            x = layer(x)  # mark: loop
        parts = [p.tanh() for p in x.split(2, -1)]  # mark: comprehension
        return torch.cat(parts, -1)  # mark: cat
