"""Fits the coefficients of vmath.h: prints the polynomials, writes vmath_tables.h.

Minimax by Lawson's reweighted least squares in float64 (the functions come from mpmath at 40
digits); the highest coefficients are rounded to float32 first and the rest refitted, so rounding
costs less.
"""

from __future__ import annotations

from pathlib import Path

import mpmath as mp
import numpy as np

mp.mp.dps = 40
SEGMENTS = 16
INCLUDE = Path(__file__).parents[2] / "src/glasshouse/backend/cpu/include/glasshouse"


def lawson(x: np.ndarray, y: np.ndarray, powers: list[int], scale: np.ndarray) -> np.ndarray:
    """Coefficients c minimising max |sum c_i x^powers_i - y| * scale."""
    basis = np.stack([x**p for p in powers], 1)
    weight = np.full(x.size, 1.0 / x.size)
    best, best_err = np.zeros(len(powers)), np.inf
    for _ in range(200):
        root = np.sqrt(weight) * scale
        c = np.linalg.lstsq(basis * root[:, None], y * root, rcond=None)[0]
        err = np.abs(basis @ c - y) * scale
        if err.max() < best_err:
            best, best_err = c, err.max()
        weight = weight * (err + 1e-30)
        weight /= weight.sum()
    return best


def fit(f, lo: float, hi: float, powers: list[int], relative: bool = True, points: int = 600):
    """(coefficients rounded to float32, largest error) of f over [lo, hi]."""
    k = np.arange(points)
    x = 0.5 * (lo + hi) + 0.5 * (hi - lo) * np.cos(np.pi * (k + 0.5) / points)
    y = np.array([float(f(mp.mpf(float(v)))) for v in x])
    scale = 1.0 / np.maximum(np.abs(y), 1e-300) if relative else np.ones_like(y)
    left, rest, fixed = list(powers), y.copy(), {}
    while left:
        c = lawson(x, rest, left, scale)
        p = left.pop()
        fixed[p] = float(np.float32(c[len(left)]))
        rest = rest - fixed[p] * x**p
    value = sum(v * x**p for p, v in fixed.items())
    return [fixed[p] for p in powers], float(np.max(np.abs(value - y) * scale))


def show(name: str, coeffs: list[float], err: float) -> None:
    print(f"// {name}: error {err:.2e}")
    print("  " + ", ".join(f"{c:.9e}f" for c in coeffs))


def table(name: str, f, step: float, degree: int, relative: bool) -> str:
    """Piecewise polynomials around i*step, in u = t/step - i, |u| <= 0.5.

    Segment 0 covers u >= 0 alone.
    """
    rows, worst = [], 0.0
    for i in range(SEGMENTS):
        lo = 0.0 if i == 0 else -0.5
        # f(0) = 0 must stay exact: segment 0 then has no constant term, which keeps its relative
        # error small.
        odd = i == 0 and f(mp.mpf(0)) == 0
        c, err = fit(
            lambda u, i=i: f((u + i) * step),
            lo,
            0.5,
            list(range(int(odd), degree + 1)),
            relative,
            200,
        )
        c = [0.0, *c] if odd else c
        rows.append(c)
        worst = max(worst, err)
    kind = "relative" if relative else "absolute"
    lines = [
        f"// {name}: {kind} error {worst:.2e}",
        f"constexpr float {name}_step = {step}f;",
        f"alignas(64) constexpr float {name}_table[{degree + 1}][16] = {{",
    ]
    for d in range(degree + 1):
        row = [f"{rows[i][d]:.9e}f" for i in range(SEGMENTS)]
        cut = [", ".join(row[i : i + 6]) for i in range(0, SEGMENTS, 6)]
        lines.append("    {" + ",\n     ".join(cut) + "},")
    return "\n".join([*lines, "};\n"])


def gelu_tail(t):
    """1 - Phi(t): gelu(x) = max(x, 0) - |x| * gelu_tail(|x|)."""
    return mp.erfc(t / mp.sqrt(2)) / 2


def gelu_tanh_tail(t):
    z = mp.sqrt(2 / mp.pi) * (t + mp.mpf("0.044715") * t**3)
    return 1 / (1 + mp.exp(2 * z))


def header() -> str:
    """The text of vmath_tables.h."""
    parts = [
        (
            "// vmath_tables.h: coefficients of the piecewise polynomials in vmath.h"
            " (made by benchmarks/kernels/fit_vmath.py).\n"
            "// Segment i holds the polynomial around t = i * step in u = t / step - i, |u| <= 0.5;"
            " row d holds the coefficients of u^d.\n"
            "#pragma once\nnamespace gh {\ninline namespace GH_ISA_NS {\n"
        ),
        table("erf", mp.erf, 0.2578125, 5, True),
        table("gelu", gelu_tail, 0.375, 5, True),
        table("gelu_tanh", gelu_tanh_tail, 0.34375, 5, True),
        "}  // namespace GH_ISA_NS\n}  // namespace gh\n",
    ]
    return "\n".join(parts)


def near_zero(f, limit, bound: float):
    """f, and its limit at zero where |s| <= bound: there the quotient loses all digits."""
    return lambda s: f(s) if abs(s) > bound else limit


def cubic(f):
    """(f(t) - t) / t^3 as a function of s = t^2."""
    return lambda s: (f(mp.sqrt(s)) - mp.sqrt(s)) / mp.sqrt(s) ** 3


def main() -> None:
    h = float(mp.log(2) / 2)
    exp = near_zero(lambda r: (mp.expm1(r) - r) / r**2, mp.mpf(0.5), 0)
    show("exp: (e^r - 1 - r) / r^2", *fit(exp, -h, h, list(range(6))))
    show(
        "exp2: (2^r - 1) / r",
        *fit(lambda r: (mp.mpf(2) ** r - 1) / r if r else mp.log(2), -0.5, 0.5, list(range(5))),
    )
    lo, hi = float(mp.sqrt(0.5) - 1), float(mp.sqrt(2) - 1)
    log = near_zero(lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, mp.mpf(1) / 3, 1e-9)
    show("log: (log(1+f) - f + f^2/2) / f^3", *fit(log, lo, hi, list(range(8))))
    tanh = near_zero(cubic(mp.tanh), -mp.mpf(1) / 3, 1e-12)
    show("tanh: (tanh(t) - t) / t^3 in t^2", *fit(tanh, 0.0, 0.36, list(range(6))))
    q = float((mp.pi / 4) ** 2) * 1.0001
    sin = near_zero(cubic(mp.sin), -mp.mpf(1) / 6, 1e-12)
    show("sin: (sin(t) - t) / t^3 in t^2", *fit(sin, 0.0, q, list(range(4))))
    cos = near_zero(lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2, mp.mpf(1) / 24, 1e-8)
    show("cos: (cos(t) - 1 + t^2/2) / t^4 in t^2", *fit(cos, 0.0, q, list(range(3))))
    erf = near_zero(lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1, 2 / mp.sqrt(mp.pi) - 1, 1e-12)
    show("erf: erf(t)/t - 1 in t^2", *fit(erf, 0.0, 0.49, list(range(6)), relative=False))
    (INCLUDE / "vmath_tables.h").write_text(header())


if __name__ == "__main__":
    main()
