"""Functions whose two graphs are all there is to run are trained without AOTAutograd's call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from glasshouse.errors import NotCompiled
from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo import plain_training

Function = Callable[..., Any]

# Dynamo's own, where an argument is no leaf.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    dynamo.reset()
    torch.manual_seed(0)


def compiled(function: Function) -> Function:
    made: Function = torch.compile(
        function, backend="glasshouse", options={"executor": "reference"}
    )
    return made


def leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.randn(s).requires_grad_() for s in shapes]


def is_plain(made: Tensor) -> bool:
    of: Any = getattr(made.grad_fn, "_forward_cls", None)
    return of is not None and of.__module__ == plain_training.__name__


def product(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh(x @ w)


def several(x: Tensor, w: Tensor) -> Any:
    y = x @ w
    return y.sin(), y.argmax(-1), y.detach() * 2, y.exp().t()


@pytest.mark.parametrize("which", [(0,), (3,), (0, 3)])
def test_some_of_several_results_are_followed_back(which: tuple[int, ...]) -> None:
    x, w = leaves((5, 4), (4, 3))
    run, found = compiled(several), []
    for function in (several, run, run):
        made = function(x, w)
        assert [m.requires_grad for m in made] == [True, False, False, True]
        loss = sum((made[i] * torch.arange(made[i].shape[-1])).sum() for i in which)
        found.append([*made, *torch.autograd.grad(loss, (x, w))])
    assert is_plain(made[0])
    assert made[3].stride() == several(x, w)[3].stride()
    for again in found[1:]:
        torch.testing.assert_close(again, found[0])


def test_gradients_come_in_any_order_of_memory() -> None:
    x, w = leaves((5, 4), (4, 3))
    run = compiled(lambda x, w: product(x, w).t())
    losses: list[Callable[[Tensor], Tensor]] = [
        lambda y: y.sum(),  # one number, seen many times
        lambda y: (y.t() * torch.arange(15.0).view(5, 3)).sum(),
        lambda y: y[:, ::2].sum(),
        lambda y: (y * 1j).imag.sum(),
    ]
    run(x, w).sum().backward()
    for loss in losses:
        made = run(x, w)
        assert is_plain(made)
        found, wanted = (torch.autograd.grad(loss(y), (x, w)) for y in (made, product(x, w).t()))
        torch.testing.assert_close(found, wanted)


def test_what_gets_no_gradient_is_not_followed() -> None:
    x, w, before = leaves((5, 4), (4, 3), (3,))
    run = compiled(lambda x, w, z: product(x, w) + z.detach())
    for _ in range(2):
        made = run(x, w, before * 2)
        made.sum().backward()
    assert is_plain(made)
    assert before.grad is None


def written(x: Tensor, w: Tensor) -> Tensor:
    x.detach().add_(1)
    return x @ w


OTHERS: dict[str, Function] = {
    "a view of an argument": lambda x, w: (x @ w, w.t()),
    "a view of another result": lambda x, w: (y := x @ w, y[0]),
    "an argument written to": written,
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_aotautograds(name: str) -> None:
    first, w = leaves((5, 4), (4, 3))
    function, found = OTHERS[name], []
    for run in (function, compiled(function)):
        x = first.detach().clone()
        for _ in range(2):
            made = run(x, w)
            made = made if isinstance(made, tuple) else (made,)
            found.append([x.clone(), *made, *torch.autograd.grad(made[0].sum(), w)])
    assert not is_plain(made[0])
    torch.testing.assert_close(found[2:], found[:2])


def test_one_argument_twice_and_then_two() -> None:
    x, z = leaves((4, 4), (4, 4))
    run = compiled(product)
    for second in (x, x, z, z, x):
        found, wanted = (f(x, second) for f in (run, product))
        of = {id(t): t for t in (x, second)}.values()
        torch.testing.assert_close(
            torch.autograd.grad(found.sum(), of), torch.autograd.grad(wanted.sum(), of)
        )
    assert is_plain(found)


def test_inside_of_autocast_it_is_aotautograds() -> None:
    x, w = leaves((5, 4), (4, 3))
    run = compiled(product)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made = run(x, w)
        made.sum().backward()
    assert made.dtype is torch.bfloat16
    assert not is_plain(made)


def test_under_a_transform_it_is_aotautograds() -> None:
    x, w = leaves((5, 4), (4, 3))
    run = compiled(product)
    run(x, w).sum().backward()
    found = torch.func.grad(lambda x: run(x, w).sum())(x.detach())
    torch.testing.assert_close(found, torch.autograd.grad(product(x, w).sum(), x)[0])


def test_saved_tensors_are_packed_checked_and_freed() -> None:
    x, w = leaves((5, 4), (4, 3))
    run, packed = compiled(product), []
    run(x, w).sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t.clone(), _same):
        made = run(x, w)
    assert is_plain(made)
    assert packed
    made.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        made.sum().backward()
    made = run(x, w)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()


def _same(x: Tensor) -> Tensor:
    return x


def test_gradients_that_have_gradients_are_taken_without_aotautograd_too() -> None:
    x, w = leaves((5, 4), (4, 3))
    run = compiled(product)
    run(x, w).sum().backward()
    made = run(x, w)
    (slope,) = torch.autograd.grad(made.sum(), x, create_graph=True)
    assert is_plain(made)
    with pytest.warns(NotCompiled, match="gradients of gradients"):
        (found,) = torch.autograd.grad(slope.square().sum(), w)
    (slope,) = torch.autograd.grad(product(x, w).sum(), x, create_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(slope.square().sum(), w)[0])


def test_a_checkpoint_computes_again_whichever_way_came_first() -> None:
    x, w = leaves((5, 4), (4, 4))
    found = []
    for run in (product, compiled(product)):
        for _ in range(2):
            # The second call's backward graph is compiled before the first call is done again.
            y = checkpoint(run, checkpoint(run, x, w, use_reentrant=False), w, use_reentrant=False)
            found.append(torch.autograd.grad(y.sum(), (x, w)))
    torch.testing.assert_close(found[2:], found[:2])


def test_threads_train_at_once() -> None:
    x, w = leaves((5, 4), (4, 3))
    run = compiled(product)
    run(x, w).sum().backward()
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        for _ in range(5):
            found[number] = torch.autograd.grad(run(x * number, w).sum(), (x, w))

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, got in found.items():
        torch.testing.assert_close(got, torch.autograd.grad(product(x * number, w).sum(), (x, w)))
