"""CTC's loss, captured and trained: PyTorch's numbers for all that it takes."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import glasshouse as gh
from frontend_torch import assert_same, outputs_of

PADDED = torch.tensor([[1, 2, 2, 4], [3, 0, 0, 0], [4, 4, 4, 1]])
CASES = {
    "padded": (PADDED, [9, 6, 9], [4, 1, 3], {}),
    "one after the other": (torch.tensor([1, 2, 3, 4, 4]), [9, 9, 9], [2, 0, 3], {}),
    "sum": (PADDED, [9, 9, 9], [2, 1, 4], {"reduction": "sum"}),
    "each": (PADDED, [9, 8, 7], [2, 1, 4], {"reduction": "none"}),
    "another blank": (PADDED % 4, [9, 9, 9], [4, 1, 3], {"blank": 4}),
    "infinite": (PADDED, [9, 3, 4], [4, 1, 4], {}),
    "infinite as zero": (PADDED, [9, 3, 4], [4, 1, 4], {"zero_infinity": True}),
    "no targets": (PADDED, [9, 9, 9], [0, 0, 0], {}),
}


class Sounds(nn.Module):
    def __init__(self, options, numbers):
        super().__init__()
        self.out = nn.Linear(6, 5)
        self.options, self.numbers = options, numbers

    def forward(self, x, targets, lengths, longest):
        logs = F.log_softmax(self.out(x), -1)
        if self.numbers is not None:
            lengths, longest = self.numbers
        loss = F.ctc_loss(logs, targets, lengths, longest, **self.options)
        return loss if loss.ndim == 0 else loss[:2].sum()


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_two_steps_equal_pytorchs(name, numbers):
    torch.manual_seed(0)
    targets, lengths, longest, options = CASES[name]
    fixed = (tuple(lengths), tuple(longest)) if numbers else None
    model = Sounds(options, fixed)
    given = [torch.randn(9, 3, 6), targets, torch.tensor(lengths), torch.tensor(longest)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = gh.trace_training(model, None, optimizer, *given)
    state: dict = {}
    for _ in range(2):
        loss = outputs_of(graph, given, variables=state)[0]
        optimizer.zero_grad()
        wanted = model(*given)
        wanted.backward()
        optimizer.step()
        assert_same(loss, wanted)
    for key, value in model.named_parameters():
        assert_same(state[key], value)


def test_other_lengths_than_those_of_the_example():
    torch.manual_seed(0)
    model, x = Sounds({}, None).eval(), torch.randn(9, 3, 6)
    first = [x, PADDED, torch.tensor([9, 9, 9]), torch.tensor([1, 1, 1])]
    compiled = gh.compile(model, *first, progress=False)
    other = [x, PADDED, torch.tensor([9, 7, 8]), torch.tensor([4, 2, 3])]
    for given in (first, other):
        torch.testing.assert_close(torch.as_tensor(compiled(*given)), model(*given).detach())


def test_one_sound_without_a_batch():
    class One(nn.Module):
        def forward(self, logs, targets):
            return F.ctc_loss(logs.log_softmax(-1), targets, (9,), (3,), reduction="none")

    given = [torch.randn(9, 5), torch.tensor([1, 2, 3])]
    compiled = gh.compile(One(), *given, progress=False)
    torch.testing.assert_close(torch.as_tensor(compiled(*given)), One()(*given))
