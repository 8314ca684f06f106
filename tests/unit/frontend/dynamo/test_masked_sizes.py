"""`x[mask]` inside of a function that `torch.compile` captures for us."""

from collections.abc import Callable

import pytest
import torch
from torch._dynamo import config

from frontend_torch import same_as_torch
from glasshouse.frontend import dynamo


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    dynamo.reset()


def by_halves(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    mask = x[:, 0] > 0
    out = torch.zeros_like(x)
    out[mask] = torch.tanh(x[mask] @ w)
    out[~mask] = x[~mask] * 2
    return out


def that_asks_for_none(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    kept = x[x[:, 0] > 0]
    return x.sum(0) if kept.shape[0] == 0 else (kept @ w).mean(0)


def compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return torch.compile(function, backend="glasshouse", options={"executor": "reference"})


def rows(count: int) -> torch.Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(count))


def test_masked_rows_do_not_break_the_graph() -> None:
    run, w = compiled(by_halves), rows(6)
    with torch.no_grad():
        for x in (rows(9), rows(9).neg(), rows(9).abs(), -rows(9).abs()):  # all rows, none
            torch.testing.assert_close(run(x, w), by_halves(x, w))
    assert [graph.phase for graph in dynamo.compiled_graphs()] == ["inference"]
    assert not config.capture_dynamic_output_shape_ops  # as it was


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo's own, behind a break
def test_masked_rows_are_trained_in_parts() -> None:
    run = compiled(by_halves)
    for given in (rows(9), rows(9).neg(), rows(12)):
        (x, w), (y, v) = ([t.clone().requires_grad_() for t in (given, rows(6))] for _ in "12")
        run(x, w).pow(2).sum().backward()
        by_halves(y, v).pow(2).sum().backward()
        torch.testing.assert_close((x.grad, w.grad), (y.grad, v.grad))
    assert "backward" not in [graph.phase for graph in dynamo.compiled_graphs()]  # of the whole


def test_a_branch_on_the_count_is_taken_by_data() -> None:
    run, w = compiled(that_asks_for_none), rows(6)
    with torch.no_grad():
        for x in (rows(9), -rows(9).abs(), rows(9).abs()):
            torch.testing.assert_close(run(x, w), that_asks_for_none(x, w))


def test_another_backend_breaks_there() -> None:
    graphs: list[torch.fx.GraphModule] = []
    other = torch.compile(by_halves, backend=lambda graph, _: graphs.append(graph) or graph)
    x, w = rows(9), rows(6)
    with torch.no_grad():
        torch.testing.assert_close(other(x, w), by_halves(x, w))
    assert len(graphs) > 1


def test_a_loop_over_a_list_of_what_data_say() -> None:
    """How long the list is only data say: the graph breaks there, and Python runs the loop."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    experts = [torch.randn(4, 4) for _ in range(5)]

    def mixture(x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        for number in (torch.bincount(chosen, minlength=5) > 0).nonzero().flatten().tolist():
            rows = torch.where(chosen == number)[0]
            out.index_add_(0, rows, x[rows] @ experts[number])
        return out

    run = torch.compile(mixture, backend="glasshouse")
    with torch.no_grad():
        for chosen in ([1, 1, 3], [0, 2, 4], [2, 2, 2]):
            x, places = torch.randn(3, 4), torch.tensor(chosen)
            torch.testing.assert_close(run(x, places), mixture(x, places))


class _Nearer(torch.nn.Module):
    """What is written at a mask's places is what the mask selects, in part of other rows."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out, mask = x.clone(), y < x
        out[mask] = y[mask]
        rows = out[:, 0] > 0
        out[rows] = out.flip(1)[rows]
        return out


def test_what_a_mask_selects_is_chosen_where_it_is_written() -> None:
    captured = same_as_torch(_Nearer(), rows(5), rows(5).flip(0))
    assert {"opaque", "cumsum", "take"}.isdisjoint(n.op.name for n in captured.graph.nodes)


@pytest.mark.parametrize("other", [lambda m, y: y[~m][: int(m.sum())], lambda m, y: y.flip(0)[m]])
def test_what_another_mask_selects_is_put_in_order(other: Callable[..., torch.Tensor]) -> None:
    x = torch.tensor([3.0, -1.0, 2.0, -2.0, -5.0])

    def put(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out, mask = x.clone(), x > 0
        out[mask] = other(mask, y)
        return out

    torch.testing.assert_close(compiled(put)(x, 10 * x), put(x, 10 * x))
