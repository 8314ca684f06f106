"""Small models of odd shapes, views, types and values, by theme: each with the inputs to try it on.

They are exact in PyTorch's eager code, so that what a compiled model gives must be equal up to
rounding, and what it leaves in its inputs too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]
INF, NAN = float("inf"), float("nan")
_CHANCE = torch.Generator().manual_seed(0)


def _x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=_CHANCE)


def _whole(low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=_CHANCE)


X, Y, CUBE, NONE = _x(3, 4), _x(3, 4), _x(3, 4, 5), torch.zeros(0, 4)
C = torch.complex(X, Y)
ODD = torch.tensor([[1.0, NAN, 3.0, -INF], [NAN, NAN, 0.0, 1.0], [INF, 2.0, -0.0, 0.0]])
ENDS = torch.tensor([2**63 - 1, -(2**63), -1, 0, 1, 2**53 + 1, -(2**53) - 1])
BYTES = torch.tensor([0, 1, 5, 127, 128, 200, 255], dtype=torch.uint8)
TWICE = torch.tensor([1, 1, 4, 1])


def _after(x: torch.Tensor, change: Callable[[torch.Tensor], Any]) -> torch.Tensor:
    """A copy of x that was written to."""
    y = x.clone()
    change(y)
    return y


def _swapped(x: torch.Tensor, y: torch.Tensor) -> Any:
    kept = x.clone()
    return x.copy_(y), y.copy_(kept)


def _all(*functions: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: tuple(f(*given) for f in functions)


MODELS: dict[str, dict[str, Case]] = {
    "views": {
        "rows that overlap": (lambda x: torch.as_strided(x, (3, 3), (1, 1)) + 1, (_x(12),)),
        "a part, by strides": (lambda x: x.as_strided((2, 3), (4, 2), 1) * 2, (_x(12),)),
        "write through a transpose": (lambda x: _after(x, lambda y: y.t().add_(1)), (X,)),
        "write every third": (lambda x: _after(x, lambda y: y.view(-1)[::3].mul_(2)), (X,)),
        "write a diagonal": (lambda x: _after(x, lambda y: y.diagonal().fill_(5)), (X,)),
        "flip and roll": (
            _all(lambda x: x.flip(0, -1), lambda x: x.roll((-5, 7), (0, 2))), (CUBE,)),
        "windows": (_all(lambda x: x.unfold(1, 3, 1), lambda x: x.unfold(0, 2, 2)), (CUBE,)),
        "bits": (_all(lambda x: x.view(torch.int32), lambda x: x.view(torch.int16)), (X,)),
        "splits": (_all(lambda x: x.split([0, 4, 0], 1), lambda x: x.tensor_split((1, 1, 3), 1),
                        lambda x: x.chunk(7, 1)), (X,)),
        "brackets": (_all(lambda x: x[::3], lambda x: x[:, 1:1], lambda x: x[..., None, 0],
                          lambda x: x[[[0], [1]], [0, 1]], lambda x: x[None, ..., [2]]), (X,)),
        "an input with steps": (lambda x: x * 2 + x.flip(0), (_x(8, 6)[::2, 1::2],)),
        "an input that overlaps": (lambda x: x * 2, (torch.as_strided(_x(10), (4, 3), (2, 1)),)),
    },
    "writes": {
        "into an input": (lambda x: x.add_(1), (X,)),
        "into an input, read before and after": (lambda x: (x.mul_(2).sum(), x + 1, x), (X,)),
        "into a row of an input": (lambda x: (x[0].fill_(7), x.sum()), (X,)),
        "an output twice": (lambda x: (x + 1, x, x, x.t()), (X,)),
        "two inputs change places": (
            _swapped, (X, Y)),
        "a view that is written after": (
            lambda x: _after(x, lambda y: (y[1:].add_(1), y.t()[0].mul_(y[1, 1]))), (X,)),
        "one place, several times": (_all(
            lambda x, i, v: x.index_add(0, i, v, alpha=-2),
            lambda x, i, v: x.index_put((i,), v, accumulate=True),
            lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(4, 4), v, "mean"),
            lambda x, i, v: x.index_reduce(0, i, v, "amax", include_self=False),
        ), (_x(5, 4), TWICE, _x(4, 4))),
    },
    "nothing": {
        "sums": (_all(torch.sum, torch.prod, lambda x: x.mean(0), lambda x: x.sum(1),
                      lambda x: x.logsumexp(0), lambda x: x.norm(dim=0), torch.any), (NONE,)),
        "softmax": (_all(lambda x: x.softmax(0), lambda x: x.log_softmax(1)), (NONE,)),
        "products": (_all(torch.matmul, lambda x, y: F.linear(x, y.t(), torch.ones(4))),
                     (torch.zeros(3, 0), torch.zeros(0, 4))),
        "joined": (lambda x, y: torch.cat([x, y, x]), (NONE, X)),
        "padded": (lambda x: F.pad(x, (1, 1, 2, 2), value=3.0), (NONE,)),
        "sorted": (_all(lambda x: x.sort(0), lambda x: x.cumsum(0), lambda x: x.amax(1)), (NONE,)),
        "indices": (lambda x, i: x[i], (X, torch.zeros(0, dtype=torch.int64))),
        "keys": (lambda q, k: F.scaled_dot_product_attention(q, k, k),
                 (_x(1, 2, 3, 4), torch.zeros(1, 2, 0, 4))),
        "variance of one": (_all(lambda x: x.var(0), lambda x: x.std(0, correction=0)), (X[:1],)),
    },
    "order": {
        "greatest": (_all(lambda x: x.argmax(1), lambda x: x.max(1), lambda x: x.argmin(1),
                          lambda x: x.amax(1), lambda x: x.cummax(1)), (ODD,)),
        "sorted": (_all(lambda x: x.sort(1)[0], lambda x: x.sort(1, descending=True)[0],
                        lambda x: x.argsort(dim=1, stable=True), lambda x: x.topk(2, 1)[0],
                        lambda x: x.topk(2, 1, largest=False)[0]), (ODD,)),
        "in the middle": (_all(lambda x: x.median(1), lambda x: x.nanmedian(1)[0],
                               lambda x: x.kthvalue(2, 1)[0], lambda x: x.quantile(0.3, 1),
                               lambda x: x.nanquantile(0.3, 1)), (ODD,)),
        "of two": (_all(lambda x: torch.fmax(x, x.flip(0)), lambda x: x.clamp(min=NAN),
                        lambda x: torch.clamp(x, x.flip(0), x.flip(1))), (ODD,)),
        "in a table": (_all(lambda x, t: torch.searchsorted(t, x),
                            lambda x, t: torch.bucketize(x, t, right=True, out_int32=True)),
                       (torch.tensor([NAN, INF, -INF, 0.0, 1.0]), torch.tensor([-1.0, 0, 0, 1]))),
        "equal ones": (_all(lambda x: x.argmax(1), lambda x: x.argmin(), lambda x: x.max(0)),
                       (torch.ones(3, 4),)),
    },
    "numbers": {
        "between": (_all(lambda x, y: torch.lerp(x, y, 0.7), lambda x, y: torch.lerp(x, y, 0.3),
                         lambda x, y: torch.lerp(x, y, x * 0 + 0.5)),
                    (torch.tensor([-INF, 1.0, INF, NAN, -1e38]),
                     torch.tensor([1.0, INF, -INF, 1.0, 3e38]))),
        "powers": (_all(torch.pow, torch.float_power),
                   (torch.tensor([0.0, 0, -1, -8, 2, INF, -INF, NAN, 1, -0.0]),
                    torch.tensor([0.0, -1, 0.5, 1 / 3, -1e9, 0, 3, 0, NAN, -1]))),
        "quotients": (_all(lambda x, y: x // y, torch.fmod, torch.remainder,
                           lambda x, y: torch.div(x, y, rounding_mode="trunc")),
                      (torch.tensor([7.0, -7, 7, -7, 0, INF, 5, NAN, 5.5]),
                       torch.tensor([2.0, 2, -2, -2, 3, 2, INF, 1, -0.0]))),
        "beyond a multiplication by zero": (
            lambda b, x: (torch.addmm(b, x, x, beta=0), torch.addmm(b, x, x, beta=0.5)),
            (torch.full((3, 3), NAN), _x(3, 3))),
        "conjugates": (_all(lambda c: c.conj().resolve_conj(), torch.conj, lambda c: c.conj().imag,
                            lambda c: c.mH @ c, lambda c: torch.vdot(c[0], c[1]),
                            lambda c: torch.view_as_real(c.conj().resolve_conj())), (C,)),
    },
    "types": {
        "integers at their ends": (_all(lambda x: x + 1, lambda x: x * 3, lambda x: x.cumsum(0),
                                        lambda x: x > 2**53, lambda x: x == 2**53 + 1, torch.abs,
                                        lambda x: torch.where(x > 0, x, -(2**53) - 1),
                                        lambda x: x.sort(), lambda x: x.float().long()), (ENDS,)),
        "bytes": (_all(lambda x: x + 250, lambda x: x - 5, torch.neg, lambda x: x // 3, torch.sum,
                       lambda x: x >> 1, lambda x: x.to(torch.int8), lambda x: x / 2), (BYTES,)),
        "bools": (_all(torch.add, torch.mul, torch.bitwise_xor, lambda x, y: x.sum() + y.prod(),
                       lambda x, y: x + 0.5, lambda x, y: x.cumsum(0), lambda x, y: (x * 3) << 1),
                  (torch.tensor([True, False, True]), torch.tensor([True, True, False]))),
        "mixed": (_all(lambda f, h, i: f + h, lambda f, h, i: h + i, lambda f, h, i: i / i,
                       lambda f, h, i: torch.cat([f, h]), lambda f, h, i: f.double() * h,
                       lambda f, h, i: torch.where(f > 0, h, 1.0)),
                  (X, Y.half(), _whole(1, 9, 3, 4))),
        "without axes": (_all(torch.sum, torch.argmax, torch.sort, lambda s: s.softmax(0),
                              lambda s: s.expand(3), lambda s: s.flip(0), torch.median,
                              lambda s: s.topk(1), torch.atleast_2d), (torch.tensor(3.5),)),
    },
}  # fmt: skip
