"""A spelling that fails, for whatever reason, leaves an op that PyTorch runs."""

import torch
from torch import nn

from frontend_torch import same_as_torch
from glasshouse.frontend.torch import opaque_ops
from glasshouse.frontend.torch.aten import TABLE


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x) * 2


def test_a_broken_spelling_becomes_an_opaque_node_with_its_reason(monkeypatch):
    monkeypatch.setitem(TABLE, "aten::sin", lambda x: x.no_such_attribute)
    captured = same_as_torch(Sine(), torch.randn(3))
    assert opaque_ops(captured.graph) == {"aten.sin.default": 1}
    assert any(op == "aten.sin.default" and "no_such" in why for op, why in captured.refused)
