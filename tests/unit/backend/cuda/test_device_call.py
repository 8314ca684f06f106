"""Calls on a GPU's tensors with as little Python as can be: one launch, and never a stale one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import glasshouse as gh
from fake_cuda import FakeCuda, HostTorch, fake_cuda
from glasshouse.errors import ExecutionError
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import float32


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        yield fake


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(-1, 1, 8))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * self.scale + y).softmax(-1)


def made() -> tuple[Scaled, gh.Module, list[torch.Tensor]]:
    model, given = Scaled(), [torch.randn(3, 8), torch.randn(3, 8)]
    module = gh.compile(gh.trace(model, *given), target="cuda", progress=False)
    module(*given)
    return model, module, given


def same(module: gh.Module, model: nn.Module, *given: torch.Tensor) -> None:
    torch.testing.assert_close(module(*given), model(*given).detach())


def test_a_call_on_known_memory_is_one_launch(cuda: FakeCuda) -> None:
    _, module, (x, y) = made()
    out = torch.empty(3, 8)
    module.run_with_tensors([x, y], [out])
    module.run_with_tensors([x, y], [out])
    cuda.forget()
    module.run_with_tensors([x, y], [out])
    assert cuda.calls == ["cuGraphLaunch"]


class Asked(TorchFunctionMode):
    """Notes what it is asked about, as a default device is."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_is_not_asked_about_each_argument(cuda: FakeCuda) -> None:
    model, module, given = made()
    with Asked() as asked:
        out = module(*given)
    assert not asked.names & {"data_ptr", "is_contiguous", "get_device", "is_neg"}
    torch.testing.assert_close(out, model(*given).detach())


def test_memory_in_any_order_gives_the_results_of_what_it_holds(cuda: FakeCuda) -> None:
    model, module, _ = made()
    places = [torch.randn(3, 8) for _ in range(6)]
    held = []  # results that stay, so that each call has other memory
    for turn in (0, 1, 2, 3, 4, 0, 2, 0, 1, 4):
        x, y = places[turn], places[turn + 1]
        x += turn
        held.append((module(x, y), model(x, y).detach()))
    for ours, theirs in held:
        torch.testing.assert_close(ours, theirs)


def test_new_weights_hold_from_the_next_call_on(cuda: FakeCuda) -> None:
    model, module, given = made()
    same(module, model, *given)
    with torch.no_grad():
        model.scale += 1
    module.set_constant("scale", model.scale)
    same(module, model, *given)
    with torch.no_grad():
        model.scale *= 3
    lent = model.scale.detach().clone()
    assert module.lend_weights({"scale": lent}) == ["scale"]
    same(module, model, *given)
    same(module, model, *given)
    lent += 1
    with torch.no_grad():
        model.scale += 1
    same(module, model, *given)


def test_what_is_not_as_kernels_want_it_is_brought_there_or_refused(cuda: FakeCuda) -> None:
    model, module, (x, y) = made()
    turned = torch.randn(8, 3).T
    same(module, model, turned, y)
    odd = torch.randn(25)[1:].reshape(3, 8)  # four bytes behind what is aligned
    same(module, model, odd, y)
    same(module, model, nn.Parameter(x), y)
    with pytest.raises(ExecutionError, match=r"must be float32\[3, 8\], got float64"):
        module(x.double(), y)
    with pytest.raises(ExecutionError, match=r"must be float32\[3, 8\], got shape \[4, 8\]"):
        module(torch.randn(4, 8), y)
    with pytest.raises(ExecutionError, match="sparse"):
        module(x.to_sparse(), y)
    same(module, model, x, y)


def test_an_output_on_an_input_does_not_disturb_it(cuda: FakeCuda) -> None:
    model, module, (x, y) = made()
    for _ in range(3):
        wanted = model(x, y).detach()
        module.run_with_tensors([x, y], [x])
        torch.testing.assert_close(x, wanted)


def test_runs_of_other_kinds_between_calls(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    model, module, (x, y) = made()
    same(module, model, x, y)
    ours = module(x.numpy(), y.numpy())
    torch.testing.assert_close(torch.from_numpy(ours), model(x, y).detach())
    same(module, model, x, y)
    module.profile(x, y, count=1)
    again = module.bound([x, y], [torch.empty(3, 8)])
    again()
    same(module, model, y, x)
    cuda.forget()
    monkeypatch.setattr(HostTorch, "stream", lambda self: 8)
    same(module, model, x, y)
    assert cuda.calls.count("cuStreamSynchronize") == 1, "runs share memory between steps"


def test_a_launch_that_was_given_other_memory_is_not_taken_for_known(cuda: FakeCuda) -> None:
    model, module, (x, y) = made()
    odd = torch.randn(25)[1:].reshape(3, 8)  # copied first: a call of the general kind
    outs = [torch.empty(3, 8) for _ in range(3)]
    for _ in range(2):
        for out in outs:
            module.run_with_tensors([x, y], [out])
            module.run_with_tensors([odd, y], [out])
        for out in outs:
            module.run_with_tensors([x, y], [out])
            torch.testing.assert_close(out, model(x, y).detach())


def test_a_bound_function_keeps_its_memory(cuda: FakeCuda) -> None:
    model, module, (x, y) = made()
    out = torch.empty(3, 8)
    again = module.bound([x, y], [out])
    held = [module(torch.randn(3, 8), y) for _ in range(5)]
    x += 1
    again()
    torch.testing.assert_close(out, model(x, y).detach())
    del held


def test_a_fault_is_told(cuda: FakeCuda) -> None:
    table, given = torch.randn(5, 4), torch.tensor([1, 2])
    module = gh.compile(lambda i: table[i], given, target="cuda", progress=False)
    out = torch.empty(2, 4)
    for _ in range(2):
        module.run_with_tensors([given], [out])
    given[1] = 7
    with pytest.raises(ExecutionError, match="an index lies outside"):
        module.run_with_tensors([given], [out])
    given[1] = 0
    module.run_with_tensors([given], [out])
    torch.testing.assert_close(out, table[given])


def test_a_fault_of_a_run_that_ends_late_is_told_once(cuda: FakeCuda) -> None:
    """A GPU ends a run behind the call that started it: the next call tells of the fault, and runs
    that were started meanwhile, and all later ones, are right."""
    table, given = torch.randn(5, 4), [torch.tensor([1, n]) for n in (2, 7, 0, 3, 4, 1)]
    module = gh.compile(lambda i: table[i], given[0], target="cuda", progress=False)
    outs = [torch.empty(2, 4) for _ in given]  # memory stays, since runs end behind their calls
    module.run_with_tensors([given[0]], [outs[0]])
    cuda.late()
    module.run_with_tensors([given[1]], [outs[1]])  # its fault is not known yet
    cuda.wait()
    with pytest.raises(ExecutionError, match="an index lies outside"):
        module.run_with_tensors([given[2]], [outs[2]])
    cuda.wait()
    for x, out in zip(given[2:], outs[2:], strict=True):
        out.zero_()
        module.run_with_tensors([x], [out])
    cuda.wait()
    for x, out in zip(given[2:], outs[2:], strict=True):
        torch.testing.assert_close(out, table[x])


def test_variables_step_with_each_call(cuda: FakeCuda) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.model(x).pow(2).mean()

    loss, x = Loss(), torch.randn(8, 4)
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.1)
    step = gh.compile(gh.trace_training(loss, None, optimizer, x), target="cuda", progress=False)
    ours = [float(step(x)) for _ in range(5)]
    theirs = []
    for _ in range(5):
        optimizer.zero_grad()
        found = loss(x)
        found.backward()
        optimizer.step()
        theirs.append(float(found.detach()))
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs))


def test_a_result_that_leaves_twice_is_copied_behind_the_launch(cuda: FakeCuda) -> None:
    builder = GraphBuilder()
    x = builder.input(float32, (3, 8))
    y = x.apply("exp")
    module = gh.compile(builder.finish(y, x + y, y), target="cuda", progress=False)
    for _ in range(3):
        given = torch.randn(3, 8)
        cuda.forget()
        first, both, again = module(given)
        torch.testing.assert_close(first, given.exp())
        torch.testing.assert_close(both, given + given.exp())
        assert again.data_ptr() != first.data_ptr(), "memory of its own"
        assert torch.equal(first, again)
    outputs = [torch.empty(3, 8) for _ in range(3)]
    module.run_with_tensors([given], outputs)
    assert torch.equal(outputs[0], first)
    assert torch.equal(outputs[2], first)
    cuda.forget()
    module.run_with_tensors([given], outputs)
    assert cuda.calls == ["cuGraphLaunch"]


def counting() -> gh.Module:
    """Its second input is written to: a count that grows by the sum of the first."""
    builder = GraphBuilder()
    x, count = builder.input(float32, (4,)), builder.input(float32, (4,))
    graph = builder.finish(x * count, count + x)
    graph.written[1] = 1
    return gh.compile(graph, target="cuda", progress=False)


def test_what_is_written_to_is_written_over(cuda: FakeCuda) -> None:
    module, x, count = counting(), torch.arange(4.0), torch.ones(4)
    module.run_over([x, count])  # the first call makes everything ready
    expected = count.clone()
    for _ in range(3):
        made, new = module.run_over([x, count])
        assert new is count
        torch.testing.assert_close(made, x * expected)
        expected += x
        torch.testing.assert_close(count, expected)
    cuda.forget()
    module.run_over([x, count])
    assert cuda.calls.count("cuGraphLaunch") == 1, "nothing was run twice to be timed"


def test_what_shares_memory_with_another_input_is_not_written_over(cuda: FakeCuda) -> None:
    module, held = counting(), torch.arange(4.0)
    for _ in range(2):
        before = held.clone()
        made, new = module.run_over([held, held])
        assert new is not held
        torch.testing.assert_close(made, before * before)
        torch.testing.assert_close(new, before + before)
        assert torch.equal(held, before)


def test_a_seed_waits_for_nothing(cuda: FakeCuda) -> None:
    class Drops(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(x, 0.5, True)

    x = torch.ones(64, 16)
    module = gh.compile(gh.trace(Drops(), x), target="cuda", progress=False)
    module(x)
    cuda.forget()
    torch.manual_seed(3)
    first, second = module(x), module(x)
    assert cuda.calls.count("cuMemsetD32Async") == 4, "two words of each seed"
    assert not [c for c in cuda.calls if "Synchronize" in c or "Memcpy" in c]
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(first, module(x))
    cuda.fail("cuMemsetD32Async", 1)
    with pytest.raises(ExecutionError, match="refused cuMemsetD32Async"):
        module(x)
    cuda.fail("cuMemsetD32Async", 0)
    assert module(x).shape == x.shape
