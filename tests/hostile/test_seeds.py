"""`torch.manual_seed` fixes what compiled modules draw, and calls differ without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import glasshouse as gh


class Draws(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return (
            F.dropout(x, 0.5, True), torch.rand_like(x), torch.randn(3, 4), torch.bernoulli(x),
            torch.randint(0, 1000, (7,)), torch.empty(5).exponential_(),
        )  # fmt: skip


X = torch.linspace(0.1, 0.9, 64).reshape(4, 16)


def repeats(call: Any) -> None:
    """The same seed gives the same numbers; the call after it gives others, the same again too."""
    torch.manual_seed(7)
    first, second = call(X), call(X)
    torch.manual_seed(7)
    assert all(map(torch.equal, first, call(X)))
    assert all(map(torch.equal, second, call(X)))
    assert not any(map(torch.equal, first, second))
    torch.manual_seed(8)
    assert not any(map(torch.equal, first, call(X)))


@pytest.fixture(scope="module")
def module() -> Any:
    return gh.compile(Draws(), X)


def test_compiled(module: Any, tmp_path: Path) -> None:
    repeats(module)
    module.save(tmp_path / "draws")
    repeats(gh.load(tmp_path / "draws"))


def test_arrays_draw_as_tensors_do(module: Any) -> None:
    torch.manual_seed(7)
    wanted = module(X)
    torch.manual_seed(7)
    for ours, theirs in zip(module(X.numpy()), wanted, strict=True):
        assert torch.equal(torch.from_numpy(ours), theirs)


def test_given_outputs(module: Any) -> None:
    torch.manual_seed(7)
    wanted = module(X)
    torch.manual_seed(7)
    assert all(map(torch.equal, module.run_with_tensors([X], [t * 0 for t in wanted]), wanted))


def test_looking_draws_nothing(module: Any) -> None:
    state = torch.get_rng_state()
    module.profile(X, count=1)
    module.recording(X, count=1)
    assert torch.equal(torch.get_rng_state(), state)


def test_torch_compile() -> None:
    repeats(torch.compile(Draws(), backend="glasshouse"))


def test_dropout_is_the_same_in_the_gradient() -> None:
    call = torch.compile(lambda x: F.dropout(x, 0.5, True).sum(), backend="glasshouse")
    grads = []
    for _ in range(2):
        torch.manual_seed(3)
        x = torch.ones(64, requires_grad=True)
        call(x).backward()
        grads.append(x.grad)
    assert torch.equal(*grads)
    assert set(grads[0].tolist()) == {0.0, 2.0}


def test_checkpoint_draws_the_same_twice() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.5))
    call = torch.compile(layer, backend="glasshouse")
    x = X.clone().requires_grad_()
    torch.manual_seed(5)
    out = checkpoint(call, x, use_reentrant=False)
    out.sum().backward()
    dropped = out == 0
    # What was dropped has no part in the gradient of the bias.
    torch.testing.assert_close(layer[0].bias.grad, 2.0 * (~dropped).sum(0).float())


def test_the_sequence_of_eager_code_where_it_is_asked_for() -> None:
    import torch._inductor.config as options

    with options.patch(fallback_random=True):
        module = gh.compile(Draws(), X)
    torch.manual_seed(7)
    ours = module(X)
    torch.manual_seed(7)
    assert all(map(torch.equal, ours, Draws()(X)))
