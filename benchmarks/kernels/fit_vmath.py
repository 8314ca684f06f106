"""Fits the polynomial and table coefficients that vmath.h holds, and prints them as C arrays.

Minimax by Lawson's reweighted least squares in float64 (the functions come from mpmath at 40 digits);
the highest coefficients are rounded to float32 first and the rest refitted, so rounding costs less.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np

mp.mp.dps = 40
SEGMENTS = 16


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


def table(name: str, f, step: float, degree: int, relative: bool) -> None:
    """Piecewise polynomials around i*step, in u = t/step - i, |u| <= 0.5; segment 0 covers u >= 0 alone."""
    rows, worst = [], 0.0
    for i in range(SEGMENTS):
        lo = 0.0 if i == 0 else -0.5
        c, err = fit(lambda u, i=i: f((u + i) * step), lo, 0.5, list(range(degree + 1)), relative, 200)
        rows.append(c)
        worst = max(worst, err)
    print(f"// {name}: step {step}, degree {degree}, error {worst:.2e} ({'relative' if relative else 'absolute'})")
    for d in range(degree + 1):
        print("  {" + ", ".join(f"{rows[i][d]:.9e}f" for i in range(SEGMENTS)) + "},")


def gelu_tail(t):
    """1 - Phi(t): gelu(x) = max(x, 0) - |x| * gelu_tail(|x|)."""
    return mp.erfc(t / mp.sqrt(2)) / 2


def gelu_tanh_tail(t):
    z = mp.sqrt(2 / mp.pi) * (t + mp.mpf("0.044715") * t**3)
    return 1 / (1 + mp.exp(2 * z))


def erf_over_t(t):
    return mp.erf(t) / t if abs(t) > mp.mpf("1e-12") else 2 / mp.sqrt(mp.pi)


def main() -> None:
    h = float(mp.log(2) / 2)
    show("exp: (e^r - 1 - r) / r^2", *fit(lambda r: (mp.expm1(r) - r) / r**2 if r else mp.mpf(0.5), -h, h, [0, 1, 2, 3, 4, 5]))
    lo, hi = float(mp.sqrt(0.5) - 1), float(mp.sqrt(2) - 1)
    show("log: (log(1+f) - f + f^2/2) / f^3",
         *fit(lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3 if abs(f) > 1e-9 else mp.mpf(1) / 3, lo, hi, list(range(8))))
    show("tanh: (tanh(t) - t) / t^3 in t^2", *fit(lambda s: (mp.tanh(mp.sqrt(s)) - mp.sqrt(s)) / mp.sqrt(s) ** 3 if s > 1e-12 else -mp.mpf(1) / 3,
                                                 0.0, 0.36, list(range(6))))
    q = float((mp.pi / 4) ** 2) * 1.0001
    show("sin: (sin(t) - t) / t^3 in t^2", *fit(lambda s: (mp.sin(mp.sqrt(s)) - mp.sqrt(s)) / mp.sqrt(s) ** 3 if s > 1e-12 else -mp.mpf(1) / 6,
                                               0.0, q, [0, 1, 2, 3]))
    show("cos: (cos(t) - 1 + t^2/2) / t^4 in t^2", *fit(lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2 if s > 1e-8 else mp.mpf(1) / 24,
                                                       0.0, q, [0, 1, 2]))
    table("erf(t) / t", erf_over_t, 0.2578125, 5, True)
    table("gelu tail", gelu_tail, 0.375, 5, True)
    table("gelu tanh tail", gelu_tanh_tail, 0.34375, 5, True)


if __name__ == "__main__":
    main()
