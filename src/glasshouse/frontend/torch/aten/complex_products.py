"""How products of complex tensors are spelled: one real product, with the pairs as a further axis.

With x = a + ib along an axis p and y = c + id, the matrix [[c, d], [-d, c]] along p and r gives
both parts of x * y at once, as a sum over p. A weight's matrix is folded before the first run.
"""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.ops import composite

_GIVEN, _MADE = "P", "R"
"""Labels of the pairs; PyTorch's equations may use the letters too, and are refused then."""


def complex_einsum(equation: str, tensors: list[Any]) -> Complex:
    """An Einstein sum of which some operand is complex."""
    left, found, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not found:
        counts = left.replace(",", "").replace("...", "")
        dots = "..." if "..." in left else ""
        right = dots + "".join(sorted(c for c in set(counts) if counts.count(c) == 1))
    if len(terms) != len(tensors) or len(terms) > 2 or set(equation) & {_GIVEN, _MADE}:
        raise Unsupported(f"einsum {equation!r} of complex tensors")
    if any(isinstance(t, Complex) and t.is_apart for t in tensors):
        return _of_parts(f"{','.join(terms)}->{right}", tensors)
    if not all(isinstance(t, Complex) for t in tensors):
        terms = [
            t + (_MADE if isinstance(x, Complex) else "")
            for t, x in zip(terms, tensors, strict=True)
        ]
        pairs = [x.pairs if isinstance(x, Complex) else x for x in tensors]
        return Complex(composite.einsum(f"{','.join(terms)}->{right}{_MADE}", *pairs))
    x, y = tensors
    equation = f"{terms[0]}{_GIVEN},{terms[1]}{_GIVEN}{_MADE}->{right}{_MADE}"
    return Complex(composite.einsum(equation, x.pairs, _turns(y)))


def _of_parts(equation: str, tensors: list[Any]) -> Complex:
    """Real sums of parts: where only real parts are wanted, half of them is never computed."""
    if len(tensors) == 1:
        return joined(*(composite.einsum(equation, p) for p in tensors[0].parts()))
    x, y = tensors
    if not isinstance(x, Complex):
        return joined(*(composite.einsum(equation, x, p) for p in y.parts()))
    if not isinstance(y, Complex):
        return joined(*(composite.einsum(equation, p, y) for p in x.parts()))
    (a, b), (c, d) = x.parts(), y.parts()

    def product(p: Any, q: Any) -> Any:
        return composite.einsum(equation, p, q)

    return joined(product(a, c) - product(b, d), product(a, d) + product(b, c))


def _turns(y: Complex) -> Any:
    """The 2 by 2 matrix of each number: what it does to a pair."""
    c, d = y.parts()
    return composite.stack([composite.stack([c, d], -1), composite.stack([-d, c], -1)], -2)


def complex_matmul(x: Any, y: Any) -> Complex:
    """A product of matrices or vectors of which some are complex."""
    left = "k" if x.ndim == 1 else "...ik"
    right = "k" if y.ndim == 1 else "...kj"
    rows = ("" if x.ndim == 1 else "i") + ("" if y.ndim == 1 else "j")
    dots = "..." if max(x.ndim, y.ndim) > 1 else ""
    return complex_einsum(f"{left},{right}->{dots}{rows}", [x, y])
