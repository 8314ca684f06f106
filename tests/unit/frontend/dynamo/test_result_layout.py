"""Results of graphs without gradients lie as PyTorch's do, and are not copied for it."""

from __future__ import annotations

import torch

from glasshouse.frontend import dynamo


def results(x: torch.Tensor, written: torch.Tensor) -> tuple[torch.Tensor, ...]:
    written.add_(1)
    return (
        (x * 2).transpose(0, 1),  # dense
        (x * 3).permute(2, 0, 1),
        (x.unsqueeze(0) * 2).transpose(1, 2),  # an axis of one element
        (x * 2).transpose(0, 1).expand(2, 4, 3, 5),  # seen twice
        (x * 2)[:, ::2].transpose(0, 1),  # with gaps
        x.transpose(0, 1),  # of an argument
        written.transpose(0, 1),
        x + 1,
    )


def test_dense_results_are_made_in_the_order_of_their_memory() -> None:
    torch._dynamo.reset()
    dynamo.reset()
    run = torch.compile(results, backend="glasshouse", options={"executor": "compiled"})
    x, written = torch.randn(3, 4, 5), torch.zeros(2, 3)
    for _ in range(2):
        other = written.clone()
        expected = results(x, other)
        found = run(x, written)
        assert torch.equal(written, other)
        for a, b in zip(found, expected, strict=True):
            assert a.stride() == b.stride()
            torch.testing.assert_close(a, b, rtol=0, atol=0)
    graph = dynamo.compiled_graphs()[-1].graph
    assert [v.type.shape for v in graph.outputs[:3]] == [(3, 4, 5), (3, 4, 5), (1, 3, 4, 5)]
    assert graph.outputs[3].type.shape == (2, 4, 3, 5)


def test_a_layer_with_batch_and_time_exchanged_is_not_copied() -> None:
    torch._dynamo.reset()
    dynamo.reset()
    layer = torch.nn.LSTM(8, 8, batch_first=True)
    run = torch.compile(layer, backend="glasshouse", options={"executor": "compiled"})
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        found, expected = run(x)[0], layer(x)[0]
    assert found.stride() == expected.stride() == (8, 16, 1)
    torch.testing.assert_close(found, expected)
    last = dynamo.compiled_graphs()[-1].graph
    assert (5, 2, 8) in [v.type.shape for v in last.outputs]


def test_results_lie_so_for_other_sizes_too() -> None:
    torch._dynamo.reset()
    dynamo.reset()

    def turned(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y.transpose(1, 2), y.permute(2, 0, 1), y[:, :, 0], y + 1

    run = torch.compile(turned, backend="glasshouse", options={"executor": "compiled"})
    for batch in (3, 5, 7):
        x = torch.randn(batch, 4, 6)
        found, expected = run(x), turned(x)
        torch.testing.assert_close(found, expected)
        for number in (0, 1, 3):  # one with gaps is made without them
            assert found[number].stride() == expected[number].stride()
    assert len(dynamo.compiled_graphs()) == 2  # the second serves all sizes
