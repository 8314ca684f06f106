"""Factorisations and solvers of PyTorch's, compiled: LAPACK's numbers, pivots and reports."""

from __future__ import annotations

from typing import Any

import pytest

import glasshouse as gh

torch = pytest.importorskip("torch")
L = torch.linalg


class Called(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given)


def compiled(function: Any, *given: Any) -> Any:
    module = gh.compile(Called(function), *given)
    assert not any(n.op.name in ("opaque", "scan") for n in module.graph.nodes)
    return module(*given)


def batch(rows: int, columns: int, count: int, dtype: Any = torch.float64) -> Any:
    torch.manual_seed(rows * columns + count)
    return torch.randn(count, rows, columns, dtype=dtype)


SIZES = [(5, 1), (7, 19), (16, 3), (33, 2), (70, 1)]


@pytest.mark.parametrize(("size", "count"), SIZES)
def test_solvers_and_determinants_as_pytorch_has_them(size: int, count: int) -> None:
    a, b = batch(size, size, count), batch(size, 3, count, torch.float64)

    def all_of_them(a: Any, b: Any) -> Any:
        both, pivots, info = L.lu_factor_ex(a)
        spd = a @ a.mT + size * torch.eye(size, dtype=a.dtype)
        low = L.cholesky(spd)
        return (
            both, pivots, info, L.det(a), *L.slogdet(a), L.solve(a, b), L.inv(a), *L.lu(a),
            L.lu_solve(both, pivots, b), L.lu_solve(both, pivots, b.mT, left=False, adjoint=True),
            low, L.cholesky(spd, upper=True), torch.cholesky_solve(b, low),
            L.solve_triangular(low.mT, b.mT, upper=True, left=False),
        )  # fmt: skip

    for found, wanted in zip(compiled(all_of_them, a, b), all_of_them(a, b), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("count", [1, 20])
def test_what_failed_is_reported_as_lapack_reports_it(count: int) -> None:
    a = batch(6, 6, count)
    a[0, :, 3] = 0.0  # the fourth pivot is 0
    spd = a @ a.mT + torch.eye(6, dtype=a.dtype)
    spd[0, 2, 2] = -1.0

    def reports(a: Any, spd: Any) -> Any:
        return (
            L.lu_factor_ex(a)[2], L.inv_ex(a)[1], L.solve_ex(a, a)[1], L.cholesky_ex(spd)[1],
            L.det(a),
        )  # fmt: skip

    for found, wanted in zip(compiled(reports, a, spd), reports(a, spd), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_hostile_elements_stay_in_their_matrix(count: int, bad: float) -> None:
    a = batch(9, 9, count + 1)
    a[0, 4, 2] = bad
    found = compiled(lambda a: (L.lu_factor_ex(a)[0], L.det(a), L.inv_ex(a)[0]), a)
    wanted = L.lu_factor_ex(a)[0], L.det(a), L.inv_ex(a)[0]
    for one, other in zip(found, wanted, strict=True):
        assert one[0].isfinite().all() == other[0].isfinite().all()
        torch.testing.assert_close(one[1:], other[1:])


def test_equal_pivots_and_odd_memory() -> None:
    a = torch.ones(3, 8, 8, dtype=torch.float64).tril() - 2 * torch.eye(8, dtype=torch.float64)
    for given in (a, a.mT, a.expand(3, 8, 8)[:, :, ::1], a.repeat(1, 2, 2)[:, ::2, ::2]):
        found = compiled(L.lu_factor_ex, given)
        for one, other in zip(found, L.lu_factor_ex(given), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("shape", [(0, 0), (0, 4, 4), (4, 0), (1, 1)])
def test_without_elements_and_of_one(shape: tuple[int, ...]) -> None:
    a = torch.randn(*shape, dtype=torch.float64)
    for found, wanted in zip(compiled(L.lu_factor_ex, a), L.lu_factor_ex(a), strict=True):
        torch.testing.assert_close(found, wanted)
    if shape[-1] == shape[-2]:
        torch.testing.assert_close(compiled(L.det, a), L.det(a))


@pytest.mark.parametrize("size", [6, 40])
def test_gradients_through_torch_compile(size: int) -> None:
    torch._dynamo.reset()
    a, b = batch(size, size, 2) + size * torch.eye(size, dtype=torch.float64), batch(size, 3, 2)

    def loss(a: Any, b: Any) -> Any:
        low = L.cholesky(a @ a.mT)
        return L.solve(a, b).sum() + L.slogdet(a)[1].sum() + L.solve_triangular(
            low, b, upper=False
        ).square().sum() + L.inv(a).sum() + L.det(a / size).sum()  # fmt: skip

    def gradients(function: Any) -> Any:
        given = [x.clone().requires_grad_() for x in (a, b)]
        return torch.autograd.grad(function(*given), given)

    found = gradients(torch.compile(loss, backend="glasshouse"))
    for one, other in zip(found, gradients(loss), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("rows", "columns", "count"), [(5, 5, 1), (9, 4, 19), (40, 70, 1), (70, 40, 2)]
)
def test_reflections_have_lapacks_signs(rows: int, columns: int, count: int) -> None:
    a = batch(rows, columns, count)
    a[0, :, 1] = 0.0

    def all_modes(a: Any) -> Any:
        return *L.qr(a), *L.qr(a, "complete"), L.qr(a, "r")[1]

    module = gh.compile(Called(all_modes), a)
    assert "opaque" not in {n.op.name for n in module.graph.nodes}
    for scale in (1.0, 1e-200, 1e200):  # whose squares are not finite, or nothing
        units = (1.0, scale, 1.0, scale, scale)
        found, wanted = module(a * scale), all_modes(a * scale)
        for one, other, unit in zip(found, wanted, units, strict=True):
            torch.testing.assert_close(one / unit, other / unit)
