"""Gradients: of functions, of tensors, of gradients, and of graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse import nn
from glasshouse.errors import GradientError
from glasshouse.ir import verify
from glasshouse.numpy_ref import run

RNG = np.random.default_rng(0)


def test_grad_of_a_function() -> None:
    x = gh.array([1.0, 2.0, 3.0])
    assert gh.grad(lambda x: (x**3).sum())(x).tolist() == [3, 12, 27]


def test_value_and_grad_with_other_arguments_and_aux() -> None:
    def f(a: gh.Tensor, b: gh.Tensor, scale: float) -> tuple[gh.Tensor, gh.Tensor]:
        return (a * b * scale).sum(), a + b

    (value, aux), (da, db) = gh.value_and_grad(f, (0, 1), has_aux=True)(
        gh.array([1.0, 2.0]), gh.array([3.0, 4.0]), 10.0
    )
    assert value.item() == 110
    assert aux.tolist() == [4, 6]
    assert (da.tolist(), db.tolist()) == ([30, 40], [10, 20])


def test_the_gradient_has_the_form_of_the_argument() -> None:
    params = {"w": gh.array([1.0, 2.0]), "b": (gh.array([3.0]), gh.array(4.0))}
    grads = gh.grad(lambda p: (p["w"] * p["b"][0]).sum() * p["b"][1])(params)
    assert grads["w"].tolist() == [12, 12]
    assert grads["b"][0].tolist() == [12]
    assert grads["b"][1].item() == 9


def test_second_and_third_derivatives() -> None:
    def f(x: gh.Tensor) -> gh.Tensor:
        return (x**4).sum() + x.sin().sum()

    def summed(g):
        return lambda x: g(x).sum()

    x = RNG.standard_normal(5)
    first = gh.grad(f)
    second = gh.grad(summed(first))
    third = gh.grad(summed(second))
    np.testing.assert_allclose(first(gh.array(x)).numpy(), 4 * x**3 + np.cos(x), 1e-12)
    np.testing.assert_allclose(second(gh.array(x)).numpy(), 12 * x**2 - np.sin(x), 1e-10)
    np.testing.assert_allclose(third(gh.array(x)).numpy(), 24 * x - np.cos(x), 1e-9)


def test_second_order_through_layers_against_torch() -> None:
    """The gradient of a squared gradient's norm, as in a gradient penalty."""
    w1, w2 = RNG.standard_normal((4, 6)), RNG.standard_normal((6, 1))
    data = RNG.standard_normal((3, 4))

    def network(x, a, b):
        return ((x @ a).tanh() @ b).sum()

    a, b = (gh.array(w, requires_grad=True) for w in (w1, w2))
    penalty = (gh.grad(network)(gh.array(data), a, b) ** 2).sum()
    penalty.backward()
    ta, tb, tx = (torch.tensor(w, requires_grad=True) for w in (w1, w2, data))
    (g,) = torch.autograd.grad(network(tx, ta, tb), tx, create_graph=True)
    (g**2).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), ta.grad.numpy(), 1e-9)
    np.testing.assert_allclose(b.grad.numpy(), tb.grad.numpy(), 1e-9)


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
@pytest.mark.parametrize("shape, axis", [((4,), None), ((2, 4), 1)])
def test_second_gradient_of_a_product_with_zeros(
    zeros: int, shape: tuple[int, ...], axis: int | None
) -> None:
    x = RNG.uniform(0.5, 2.0, shape)
    x[..., 1 : 1 + zeros] = 0
    weights = RNG.uniform(0.5, 1.5, shape)

    def product(x):
        return (x.prod() if axis is None else x.prod(axis)).sum()

    ours = gh.grad(lambda x: (gh.grad(product)(x) * gh.array(weights)).sum())(gh.array(x))
    tx = torch.tensor(x, requires_grad=True)
    (g,) = torch.autograd.grad(product(tx), tx, create_graph=True)
    (want,) = torch.autograd.grad((g * torch.tensor(weights)).sum(), tx)
    np.testing.assert_allclose(ours.numpy(), want.numpy(), 1e-10, 1e-12)


def test_a_tensor_given_twice_is_two_variables() -> None:
    x = gh.array([2.0])
    da, db = gh.grad(lambda a, b: (a * a * b).sum(), (0, 1))(x, x)
    assert (da.item(), db.item()) == (8, 4)


def test_data_asked_for_inside_does_not_break_the_gradient() -> None:
    seen = []

    def f(x: gh.Tensor) -> gh.Tensor:
        y = x * x
        seen.append(y.tolist())  # executes in the middle
        return (y * x).sum()

    assert gh.grad(f)(gh.array([1.0, 2.0])).tolist() == [3, 12]
    assert seen == [[1, 4]]


def test_gradients_of_tensors_and_zeros_where_nothing_flows() -> None:
    x, y, z = gh.array([1.0, 2.0]), gh.array([3.0, 4.0]), gh.array([0.0])
    dx, dy, dz = gh.gradients((x * y).sum(), [x, y, z])
    assert (dx.tolist(), dy.tolist(), dz.tolist()) == ([3, 4], [1, 2], [0])
    seed = gh.array([1.0, 10.0])
    assert gh.gradients([x * y], [x], [seed])[0].tolist() == [3, 40]


def test_gradient_by_something_computed() -> None:
    x = gh.array([1.0, 2.0])
    y = x * 3
    assert gh.gradients((y * y).sum(), [y])[0].tolist() == [6, 12]


# ---------------------------------------------------------------------------------------- backward
def test_backward_adds_up_until_zeroed() -> None:
    w = gh.array([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    (w * 3).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [5, 7]
    w.grad = None
    w.sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_backward_works_after_the_loss_was_printed() -> None:
    w = gh.array([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    assert loss.item() == 5
    loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2, 4]


def test_backward_of_many_elements_needs_a_gradient() -> None:
    w = gh.array([1.0, 2.0], requires_grad=True)
    with pytest.raises(GradientError, match="scalar"):
        (w * w).backward()
    (w * w).backward(gh.array([1.0, 10.0]))
    assert w.grad is not None
    assert w.grad.tolist() == [2, 40]


def test_a_graph_is_used_once_unless_retained() -> None:
    w = gh.array([2.0], requires_grad=True)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [8]
    with pytest.raises(GradientError, match="taken already"):
        loss.backward()


def test_no_grad_and_detach_stop_gradients() -> None:
    w = gh.array([2.0], requires_grad=True)
    with gh.no_grad():
        free = w * 3
        with gh.enable_grad():
            assert (w * 3).requires_grad
    assert not free.requires_grad
    loss = (w * w.detach()).sum()
    loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2]
    with pytest.raises(GradientError, match="requires_grad_"):
        free.sum().backward()


def test_only_leaves_of_floats_can_ask_for_gradients() -> None:
    with pytest.raises(GradientError, match="only floats"):
        gh.array([1]).requires_grad_()
    w = gh.array([2.0], requires_grad=True)
    with pytest.raises(GradientError, match=r"detach\(\)"):
        (w * 2).requires_grad_(False)
    fresh = gh.randn(2).requires_grad_()  # pending, and a leaf all the same
    (fresh * 2).sum().backward()
    assert fresh.grad is not None
    assert fresh.grad.tolist() == [2, 2]


def test_a_shared_parameter_gets_one_gradient() -> None:
    layer = nn.Linear(2, 2, bias=False)
    x = gh.array([[1.0, 2.0]])
    layer(layer(x)).sum().backward()
    w = layer.weight.numpy().astype(np.float64)
    t = torch.tensor(w, requires_grad=True)
    (torch.tensor([[1.0, 2.0]], dtype=torch.float64) @ t.T @ t.T).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), t.grad.numpy(), 1e-5)


def test_a_deep_gradient_needs_no_stack() -> None:
    class Deep(nn.Module):
        def forward(self, x: gh.Tensor) -> gh.Tensor:
            for _ in range(3_000):  # three times Python's limit of calls
                x = x.relu()
            return x.sum()

    w = gh.array([1.0], requires_grad=True)
    Deep()(w).backward()
    assert w.grad is not None
    assert w.grad.tolist() == [1]


def test_an_op_without_gradient_says_so_and_where(monkeypatch) -> None:
    from glasshouse.ir.op import REGISTRY, NoGradient

    monkeypatch.setitem(REGISTRY["erf"].__dict__, "vjp", NoGradient("nobody wrote it"))
    w = gh.array([1.0], requires_grad=True)
    loss = w.erf().sum()
    with pytest.raises(GradientError, match="erf has no gradient: nobody wrote it") as caught:
        loss.backward()
    assert __file__ in str(caught.value)


# ----------------------------------------------------------------------------------------- origins
def test_backward_nodes_name_their_forward_node() -> None:
    def step(x: gh.Tensor, w: gh.Tensor) -> tuple[gh.Tensor, gh.Tensor]:
        return gh.value_and_grad(lambda w: (x @ w).exp().sum())(w)

    graph = gh.trace(step, gh.spec((2, 3)), gh.spec((3, 4)))
    by_op = {n.op.name: n for n in graph.nodes if n.origin.grad_of is None}
    backward = [n for n in graph.nodes if n.origin.grad_of is not None]
    assert backward
    for node in backward:
        forward = graph.node(node.origin.grad_of)
        assert node.origin.source == forward.origin.source
        assert node.origin.label("phase") == "backward"
    product = next(n for n in backward if n.op.name == "matmul")
    assert product.origin.grad_of == by_op["matmul"].id
    assert by_op["matmul"].origin.label("phase") is None


def test_gradients_of_gradients_chain() -> None:
    def f(x: gh.Tensor) -> tuple[gh.Tensor, ...]:
        value, first = gh.value_and_grad(lambda x: (x**3).sum())(x)
        return value, first, gh.gradients(first.sum(), [x])[0]

    graph = gh.trace(f, gh.spec((3,)))
    depths = set()
    for node in graph.nodes:
        depth = 0
        while node.origin.grad_of is not None:
            node, depth = graph.node(node.origin.grad_of), depth + 1
        depths.add(depth)
    assert depths == {0, 1, 2}


# ------------------------------------------------------------------------------------------ graphs
def test_differentiate_a_graph() -> None:
    graph = gh.trace(lambda x, w: ((x @ w) ** 2).sum(), gh.spec((2, 3)), gh.spec((3, 1)))
    both = gh.differentiate(graph)
    verify(both)
    assert both.output_names == ["", "grad:x", "grad:w"]
    assert {n.id for n in graph.nodes} <= {n.id for n in both.nodes}
    x, w = RNG.standard_normal((2, 3), np.float32), RNG.standard_normal((3, 1), np.float32)
    value, dx, dw = run(both, [x, w])
    tx, tw = (torch.tensor(t, requires_grad=True) for t in (x, w))
    loss = ((tx @ tw) ** 2).sum()
    loss.backward()
    np.testing.assert_allclose(value, loss.item(), 1e-5)
    np.testing.assert_allclose(dx, tx.grad.numpy(), 1e-4, 1e-5)
    np.testing.assert_allclose(dw, tw.grad.numpy(), 1e-4, 1e-5)
    assert len(graph.outputs) == 1  # the one given is as it was


def test_differentiate_with_given_seeds_and_chosen_values() -> None:
    graph = gh.trace(lambda x, w: (x * w, x + w), gh.spec((2,)), gh.spec((2,)))
    out = gh.differentiate(graph, [0, 1], [graph.inputs[1]], seeds="inputs")
    verify(out)
    assert [v.node.attrs["name"] for v in out.inputs] == ["x", "w", "grad:0", "grad:1"]
    arrays = [np.array(a, np.float32) for a in ([1, 2], [3, 4], [1, 1], [10, 100])]
    assert run(out, arrays)[2].tolist() == [11, 102]


def test_differentiate_by_a_weight() -> None:
    layer = nn.Linear(3, 1)
    graph = gh.trace(lambda x: layer(x).sum(), gh.spec((2, 3)))
    weight = next(n for n in graph.nodes if n.attrs.get("name") == "weight")
    out = gh.differentiate(graph, wrt=[weight.id])
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    assert run(out, [x])[1].tolist() == [[5, 7, 9]]
