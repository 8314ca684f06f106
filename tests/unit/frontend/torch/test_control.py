"""PyTorch's control flow as ops with bodies."""

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from frontend_torch import same_as_torch


class Choice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.linear, lambda x: x - 1, (x,))


class Loop(nn.Module):
    def forward(self, x, count):
        return while_loop(lambda x, i: i < 5, lambda x, i: (x * 2 + 1, i + 1), (x, count))


class Running(nn.Module):
    def forward(self, start, xs):
        return scan(lambda total, x: (total + x, (total * x).sum()), start, xs, dim=0)


class Each(nn.Module):
    def forward(self, xs, y):
        return torch_map(lambda x, y: x.sin() + y, xs, y)


def ops(captured):
    return [n.op.name for n in captured.graph.nodes]


def test_cond_takes_either_branch():
    x = torch.ones(2, 4)
    captured = same_as_torch(Choice(), x, others=[(-x,)])
    assert "cond" in ops(captured)


def test_while_loop():
    captured = same_as_torch(
        Loop(), torch.randn(3), torch.tensor(0), others=[(torch.randn(3), torch.tensor(4))]
    )
    assert "while_loop" in ops(captured)


def test_scan_and_map():
    assert "scan" in ops(same_as_torch(Running(), torch.randn(4), torch.randn(5, 4)))
    assert "scan" in ops(same_as_torch(Each(), torch.randn(5, 4), torch.randn(4)))


def test_parts_without_gradient_are_inlined():
    class Model(nn.Module):
        def forward(self, x):
            with torch.no_grad():
                scale = x.abs().max()
            return x / scale

    captured = same_as_torch(Model(), torch.randn(5))
    assert "divide" in ops(captured)
