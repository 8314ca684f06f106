"""Margin losses that are trained: PyTorch's own numbers, not its decompositions'."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import glasshouse as gh
from frontend_torch import assert_same, outputs_of

LABELS = torch.tensor([[1, 3, -1, 2], [0, -1, 1, 1], [3, 2, 1, 0], [-1, 0, 0, 0]])
SCORES = torch.tensor([[0.3, 2, 1, -1], [2, 1, 0.5, 3], [1, 0, 0, 0], [1, 2, 3, 4]])
CASES = {
    "mean": (SCORES, LABELS, {}),
    "sum": (SCORES, LABELS, {"reduction": "sum"}),
    "each": (SCORES, LABELS, {"reduction": "none"}),
    "one row": (SCORES[0], LABELS[0], {}),
    "as older scripts say it": (SCORES, LABELS, {"size_average": False}),
    "margins that are just kept": (SCORES.round(), LABELS, {}),
}


@pytest.mark.filterwarnings("ignore:size_average and reduce")
@pytest.mark.parametrize("name", CASES)
def test_through_torch_compile(name):
    scores, labels, options = CASES[name]
    torch._dynamo.reset()

    def loss(x):
        return F.multilabel_margin_loss(x, labels, **options)

    found, wanted = [], []
    for run, out in ((torch.compile(loss, backend="glasshouse"), found), (loss, wanted)):
        x = scores.clone().requires_grad_()
        out.append(run(x))
        out.append(torch.autograd.grad(out[0].sum(), x)[0])
    torch.testing.assert_close(found, wanted)


class Named(nn.Module):
    def __init__(self, scores):
        super().__init__()
        self.scores = nn.Parameter(scores.clone())

    def forward(self, labels):
        return F.multilabel_margin_loss(self.scores, labels)


@pytest.mark.parametrize("name", ["mean", "one row", "margins that are just kept"])
def test_in_a_traced_step(name):
    scores, labels, _ = CASES[name]
    model = Named(scores)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    graph = gh.trace_training(model, None, optimizer, labels)
    state: dict = {}
    assert_same(outputs_of(graph, [labels], variables=state)[0], model(labels))
    model(labels).backward()
    optimizer.step()
    assert_same(state["scores"], model.scores)


NAMED = torch.tensor([1, 0, 3, 2])
ONE_LABEL = {
    "mean": (SCORES, NAMED, {}),
    "sum of squares": (SCORES, NAMED, {"reduction": "sum", "p": 2}),
    "each, weighted": (
        SCORES, NAMED,
        {"reduction": "none", "weight": torch.tensor([1.0, 2, 0.5, 3]), "margin": 0.5},
    ),
    "one row": (SCORES[0], NAMED[:1], {}),
    "a number": (SCORES[0], NAMED[0], {}),
    "margins that are just kept": (SCORES.round(), NAMED, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_LABEL)
@pytest.mark.parametrize("trained", [True, False])
def test_of_one_label(name, trained):
    scores, labels, options = ONE_LABEL[name]
    torch._dynamo.reset()

    def loss(x):
        return F.multi_margin_loss(x, labels, **options)

    found, wanted = [], []
    for run, out in ((torch.compile(loss, backend="glasshouse"), found), (loss, wanted)):
        x = scores.clone().requires_grad_(trained)
        out.append(run(x))
        if trained:
            out.append(torch.autograd.grad(out[0].sum(), x)[0])
    torch.testing.assert_close(found, wanted)


class OneNamed(Named):
    def forward(self, labels):
        return F.multi_margin_loss(self.scores, labels, p=1, margin=1.0)


def test_of_one_label_in_a_traced_step():
    model = OneNamed(SCORES.round())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    graph = gh.trace_training(model, None, optimizer, NAMED)
    state: dict = {}
    assert_same(outputs_of(graph, [NAMED], variables=state)[0], model(NAMED))
    model(NAMED).backward()
    optimizer.step()
    assert_same(state["scores"], model.scores)
