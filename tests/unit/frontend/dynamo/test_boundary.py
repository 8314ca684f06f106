"""What crosses between PyTorch and compiled training graphs, and that it is not copied."""

import copy

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from frontend_torch import assert_same
from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo.boundary import Boundary, lying_order
from glasshouse.frontend.dynamo.execute import Runner
from glasshouse.runtime.module import Module


def _by_the_reference(runner):
    """What `Runner.quick` gives, without a compiled module."""
    if runner.captured.written or not runner._plain or not runner.graph.outputs:
        return None

    def quick(given):
        made = runner._run(None, [x.contiguous() for x in given])
        return made[0] if len(made) == 1 else tuple(made)

    return quick


@pytest.fixture(autouse=True, params=["in loops", "written out"])
def _fresh(request, monkeypatch):
    torch._dynamo.reset()
    dynamo.reset()
    plain = Runner.quick
    if request.param == "written out":
        monkeypatch.setattr(
            Runner, "quick", lambda self: plain(self) if self.module else _by_the_reference(self)
        )


def trained(model, *args, executor="reference"):
    """Outputs and gradients (inputs' too) are PyTorch's."""
    twin = copy.deepcopy(model)
    found = []
    for own, run in (
        (model, torch.compile(model, backend="glasshouse", options={"executor": executor})),
        (twin, twin),
    ):
        given = [a.detach().clone() for a in args]
        for a in given:
            a.requires_grad_(a.is_floating_point())
        out = run(*given)
        out = out if isinstance(out, tuple) else (out,)
        sum((o * o.detach().cos()).sum() for o in out if o.requires_grad).backward()
        found.append((out, [p.grad for p in (*own.parameters(), *given)]))
    (got, got_grads), (wanted, wanted_grads) = found
    for a, b in zip(got, wanted, strict=True):
        assert_same(a, b)
        assert a.stride() == b.stride()
    for a, b in zip(got_grads, wanted_grads, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert_same(a, b)
    return dynamo.compiled_graphs()


def test_weights_and_inputs_are_saved_as_they_are():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
    forward, backward = trained(model, torch.randn(3, 6))
    # The result and what ReLU gave; both weights (transposed) and the input need no output.
    assert [v.type.shape for v in forward.graph.outputs] == [(3, 4), (3, 5)]
    assert not any(n.op.name == "permute" for n in forward.graph.nodes if n.output in
                   forward.graph.outputs)  # fmt: skip
    assert backward.graph.outputs


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 4, 3, stride=2)

    def forward(self, x):
        return self.second(F.max_pool2d(F.relu(self.norm(self.first(x))), 2, padding=1))


@pytest.mark.parametrize("executor", ["reference", "compiled"])
def test_images_are_saved_with_their_channels_last(executor):
    forward, backward = trained(Images(), torch.randn(2, 3, 10, 9), executor=executor)
    saved = [v.type.shape for v in forward.graph.outputs if v.type.rank == 4][1:]
    assert saved == [(2, 10, 9, 8), (2, 10, 9, 8), (2, 6, 5, 8)]
    assert {(2, 10, 9, 8), (2, 6, 5, 8)} <= {v.type.shape for v in backward.graph.inputs}
    # No index is saved for the pool: the maxima are found again in its operand.
    assert all(v.type.dtype.is_float for v in backward.graph.inputs)
    assert "max_pool_grad" in {n.op.name for n in backward.graph.nodes}


def test_a_model_whose_images_lie_channels_last_itself():
    model = Images().to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 10, 9).to(memory_format=torch.channels_last)
    trained(model, x)


class Views(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        y = torch.tanh(x @ self.w)
        return (
            y.t(),
            y.view(2, 3, 3, 2).permute(0, 2, 1, 3),
            y[1:, ::2],
            y.sum(0).expand(3, 6),
            x[1],
        )


def test_outputs_that_are_views_have_pytorchs_strides():
    trained(Views(), torch.randn(6, 4))


class Pools(nn.Module):
    def forward(self, x):
        y, at = F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True)
        return y, at, F.max_pool2d(x, (2, 3), dilation=(1, 2)), F.max_pool3d(x[None], 2)


def test_gradients_of_pools_find_maxima_again():
    x = torch.randn(3, 9, 8)
    x[0, 2] = x[0, 3]  # equal maxima: the first counts
    trained(Pools(), x)


def test_the_gradient_of_a_pool_over_nan():
    x = torch.randn(1, 2, 6, 6)
    x[0, 0, 1, 1] = float("nan")
    grads = []
    for run in (
        torch.compile(
            lambda v: F.max_pool2d(v, 2), backend="glasshouse", options={"executor": "reference"}
        ),
        lambda v: F.max_pool2d(v, 2),
    ):
        given = x.clone().requires_grad_()
        run(given).sum().backward()
        grads.append(given.grad)
    assert torch.equal(*grads)


def test_weights_changed_in_place_between_steps():
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    model[2].weight = model[0].weight  # tied
    twin = copy.deepcopy(model)
    run = torch.compile(model, backend="glasshouse", options={"executor": "reference"})
    for own, call in ((model, run), (twin, twin)):
        optimizer = torch.optim.AdamW(own.parameters(), lr=0.1)
        torch.manual_seed(0)
        for _ in range(3):
            optimizer.zero_grad()
            call(torch.randn(4, 6)).square().sum().backward()
            optimizer.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert_same(a, b)


def test_orders():
    x = torch.empty(2, 3, 4, 5)
    assert lying_order(x) is None
    assert lying_order(x.permute(0, 3, 1, 2)) == (0, 2, 3, 1)
    assert lying_order(x.to(memory_format=torch.channels_last)) == (0, 2, 3, 1)
    assert lying_order(x[:, :, ::2]) is None
    assert lying_order(x.expand(2, 3, 4, 5)[:1].expand(7, 3, 4, 5)) is None
    assert lying_order(torch.empty(4, 1).t()) is None


def test_views_of_results_are_made_at_once_or_not_at_all():
    def views(x):
        y = x @ x
        return y.t().t(), y.view(2, 8).t(), x.t().unsqueeze(0), x[1].expand(3, 4), y[:, 2]

    traced = make_fx(views, tracing_mode="fake")(torch.randn(4, 4))
    boundary = Boundary(traced)
    assert [len(way.steps) for way in boundary.ways][:3] == [0, 1, 1]
    for x in (torch.randn(4, 4), torch.randn(4, 4).t()):  # the second lies as nobody said
        inside = boundary.inside(*boundary.enter([x]))
        for got, wanted in zip(boundary.leave([x], inside), views(x), strict=True):
            assert torch.equal(got, wanted)
            assert got.stride() == wanted.stride()


class Classified(nn.Module):
    """A class from the first token of each text, and from a part of the input as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.inside(x))[:, 0]).exp() * x[:, 1, :3]


def test_parts_that_are_saved_lie_row_by_row(monkeypatch):
    """One that does not sends all arguments of the backward graph the general way."""
    general: list[object] = []
    plain = Module._general_call
    monkeypatch.setattr(
        Module, "_general_call", lambda self, x: general.append(self) or plain(self, x)
    )
    made = Classified()
    trained(made, torch.randn(5, 7, 4), executor="compiled")
    assert [c.phase for c in dynamo.compiled_graphs()] == ["forward", "backward"]
    general.clear()  # the first call of each finds its quick one there
    given = torch.randn(5, 7, 4, requires_grad=True)
    torch.compile(made, backend="glasshouse", options={"executor": "compiled"})(
        given
    ).sum().backward()
    assert not general


def test_a_saved_tensor_enters_the_backward_graph_once(monkeypatch):
    """Tanh's gradient wants its result, the next product's the same, transposed twice. PyTorch's
    check of all arguments at once knows no tensor that comes twice."""
    counts: list[tuple[int, int]] = []
    plain = Runner.quick

    def counted(self):
        quick = plain(self)
        return lambda x: counts.append((len(x), len({id(t) for t in x}))) or quick(x)

    monkeypatch.setattr(Runner, "quick", counted)
    trained(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), torch.randn(2, 4),
            executor="compiled")  # fmt: skip
    assert len(counts) == 2
    assert all(given == apart for given, apart in counts)


class Counted(nn.Module):
    """Writes to a buffer that is a part of something."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(2, 6)[:, ::2])

    def forward(self, x):
        self.seen.add_(x.detach())
        return self.inside(x) * self.seen


def test_a_part_that_is_written_is_written_where_it_is():
    made = Counted()
    run = torch.compile(made, backend="glasshouse")
    x = torch.randn(2, 3)
    for count in (1, 2):
        run(x).sum().backward()
        assert_same(made.seen, count * x)
    assert made.seen.stride() == (6, 2)


def test_tokens_of_effects_come_as_none():
    """PyTorch checks behind a solve whether it went well: AOTAutograd hands a token in and out."""

    class Solved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix = nn.Parameter(torch.randn(3, 3) + 4 * torch.eye(3))

        def forward(self, x):
            return torch.linalg.solve(self.matrix, x)

    trained(Solved(), torch.randn(3, 2))


@pytest.mark.parametrize("executor", ["compiled", "reference"])
def test_backward_graphs_without_an_op(executor):
    """Gradients of a sum are the gradient that comes."""

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.randn(4))

        def forward(self, x):
            return x + self.bias

    trained(Sum(), torch.randn(4), executor=executor)


@pytest.mark.parametrize("conjugate", [False, True])
def test_complex_numbers_that_a_model_holds(conjugate):
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = nn.Linear(6, 6)
            turns = torch.polar(torch.ones(4, 3), torch.randn(4, 3))
            self.register_buffer("turns", turns.conj() if conjugate else turns)

        def forward(self, x):
            pairs = torch.view_as_complex(self.inside(x).reshape(4, 3, 2))
            return torch.view_as_real(pairs * self.turns).flatten(1)

    trained(Turned(), torch.randn(4, 6))
