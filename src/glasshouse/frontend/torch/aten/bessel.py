"""How ATen's Bessel functions are spelled: polynomials near zero, and far from it.

The coefficients are Chebyshev fits, made with NumPy of SciPy's values and written out as powers,
with the constant first; each is in a variable from -1 to 1 that the comment beside it names. They
hold to the precision of float32.
"""

from __future__ import annotations

import math
from typing import Any

from glasshouse.frontend.torch.aten.registry import apply, aten
from glasshouse.frontend.torch.aten.special import polynomial, single

_I0_NEAR = (  # exp(-x) i0(x) in x / 4 - 1, up to 8
    0.207001863, -0.113008122, 0.0945229565, -0.0889039191, 0.0871917524, -0.0864400252,
    0.0804653501, -0.0627049245, 0.0522254821, -0.0590085419, 0.0395060986, -0.000127335876,
    0.00164868613, -0.0180909603, 0.00915363872,
)  # fmt: skip
_I1_NEAR = (  # exp(-x) i1(x) / x in x / 4 - 1, up to 8
    0.0446877008, -0.0611249745, 0.0680587486, -0.0684591636, 0.0637436002, -0.0555287454,
    0.0448616958, -0.0325160333, 0.0229684613, -0.0182929762, 0.0110607841, -0.0021840917,
    0.00136117512, -0.00351006364, 0.00164173071,
)  # fmt: skip
_I0_FAR = (  # sqrt(x) exp(-x) i0(x) in 16 / x - 1, from 8
    0.402176509, 0.0033605557, 0.000136217164, 1.11121483e-05, 1.47611573e-06, 3.62667037e-07,
    1.08679424e-07,
)  # fmt: skip
_I1_FAR = (  # sqrt(x) exp(-x) i1(x) in 16 / x - 1, from 8
    0.389398459, -0.00974958136, -0.000219237125, -1.50039654e-05, -1.82569073e-06,
    -4.21035014e-07, -1.22732172e-07,
)  # fmt: skip
_J0_NEAR = (  # j0(x) in x² / 32 - 1, up to 8
    0.0458296648, 0.930301247, -0.648469277, -0.808088808, 1.0383794, -0.50746804, 0.145989129,
    -0.028472738, 0.0040575376, -0.00044351363, 3.89537976e-05, -2.74355573e-06,
)  # fmt: skip
_J1_NEAR = (  # j1(x) / x
    -0.058143828, 0.0810586604, 0.151516652, -0.259594865, 0.158583762, -0.054745818,
    0.0124568257, -0.00202904022, 0.000249472777, -2.40445486e-05, 1.88781249e-06, -1.20629959e-07,
)  # fmt: skip
_Y0_NEAR = (  # y0(x) - 2 / pi log(x) j0(x)
    -0.382250654, -0.82843589, 1.64709648, 0.144126325, -1.07754773, 0.672177067, -0.21895747,
    0.0463670878, -0.00702574341, 0.000806091724, -7.27919746e-05, 5.37476579e-06, -3.24353222e-07,
)  # fmt: skip
_Y1_NEAR = (  # (y1(x) - 2 / pi (log(x) j1(x) - 1 / x)) / x
    0.0707598588, -0.243377431, 0.0233675717, 0.235072092, -0.196398399, 0.0785478688,
    -0.0196287568, 0.00342249224, -0.00044381739, 4.46718301e-05, -3.60091474e-06, 2.40053811e-07,
    -1.3227896e-08,
)  # fmt: skip
# Far out, sqrt(pi x / 2) times a function is P cos - Q sin of a turned x: P, and Q x / 8, in
# 2 (8 / x)² - 1, from 8.
_P = (
    (0.999457276, -0.000536366931, 6.13732984e-06, -2.06820155e-07, 1.30379192e-08),
    (1.00090703, 0.000898804507, -7.95960254e-06, 2.47099314e-07, -1.49630373e-08),
)
_Q = (
    (-0.0155551139, 6.83312816e-05, -1.47708081e-06, 7.18907266e-08, -5.8193252e-09),
    (0.046776874, -9.62143562e-05, 1.82113976e-06, -8.38390776e-08, 6.58326483e-09),
)
_K0_NEAR = (  # k0(x) + log(x / 2) i0(x) in x² / 2 - 1, up to 2
    -0.303620773, 0.340497321, 0.0717770103, 0.00505339206, 0.000182805551, 4.05566573e-06,
    6.09445242e-08,
)  # fmt: skip
_K1_NEAR = (  # (k1(x) - 1 / x - log(x / 2) i1(x)) / x
    -0.0574558561, -0.108664621, -0.0132546432, -0.000672474909, -1.91090481e-05, -3.49371553e-07,
    -5.04542966e-09,
)  # fmt: skip
_I0_LOW = (  # i0(x) in x² / 2 - 1, up to 2
    1.56608293, 0.635861728, 0.0735898684, 0.00392856482, 0.000119820683, 2.35815184e-06,
    3.23673512e-08,
)  # fmt: skip
_I1_LOW = (  # i1(x) / x
    0.635861728, 0.147179737, 0.0117856953, 0.000479282725, 1.17878948e-05, 1.942092e-07,
    2.29155446e-09,
)  # fmt: skip
_K0_FAR = (  # sqrt(x) exp(x) k0(x) in 4 / x - 1, from 2
    1.21859534, -0.0310714589, 0.00303287441, -0.000479752859, 9.96895973e-05, -2.48216579e-05,
    6.65884575e-06, -2.00493186e-06, 1.09747496e-06, -4.345682e-07,
)  # fmt: skip
_K1_FAR = (  # sqrt(x) exp(x) k1(x)
    1.3631519, 0.103349727, -0.00556670901, 0.0007357053, -0.000139741677, 3.29442244e-05,
    -8.55775209e-06, 2.51362295e-06, -1.32425593e-06, 5.1585198e-07,
)  # fmt: skip


# ---------------------------------------------------------------------------------------- modified
@aten("special_i0e")
def i0e(x: Any) -> Any:
    size = abs(single(x))
    near = polynomial(apply("minimum", size, 8.0) * 0.25 - 1.0, _I0_NEAR)
    out = apply("maximum", size, 8.0)
    far = polynomial(16.0 / out - 1.0, _I0_FAR) * out.apply("rsqrt")
    return apply("where", size < 8.0, near, far)


@aten("special_i1e")
def i1e(x: Any) -> Any:
    x = single(x)
    size = abs(x)
    near = polynomial(apply("minimum", size, 8.0) * 0.25 - 1.0, _I1_NEAR) * x
    out = apply("maximum", size, 8.0)
    far = polynomial(16.0 / out - 1.0, _I1_FAR) * out.apply("rsqrt") * x.apply("sign")
    return apply("where", size < 8.0, near, far)


@aten("i0", "special_i0", "special_modified_bessel_i0")
def i0(x: Any) -> Any:
    return i0e(x) * abs(single(x)).apply("exp")


@aten("special_i1", "special_modified_bessel_i1")
def i1(x: Any) -> Any:
    return i1e(x) * abs(single(x)).apply("exp")


def _k(order: int, scaled: bool) -> Any:
    near_fit, far_fit = ((_K0_NEAR, _K0_FAR), (_K1_NEAR, _K1_FAR))[order]

    def spelling(x: Any) -> Any:
        x = single(x)
        low = apply("where", (x > 0.0) & (x <= 2.0), x, 1.0)
        u = low * low * 0.5 - 1.0
        log = (low * 0.5).apply("log")
        if order == 0:
            near = polynomial(u, near_fit) - log * polynomial(u, _I0_LOW)
        else:
            near = (polynomial(u, near_fit) + log * polynomial(u, _I1_LOW)) * low + 1.0 / low
        high = apply("where", x > 2.0, x, 2.0)
        far = polynomial(4.0 / high - 1.0, far_fit) * high.apply("rsqrt")
        if scaled:
            near = near * low.apply("exp")
        else:
            far = far * (-high).apply("exp")
        end = apply("where", x.apply("equal", 0.0), math.inf, math.nan)
        return apply("where", x > 0.0, apply("where", x <= 2.0, near, far), end)

    return spelling


for _order in (0, 1):
    aten(f"special_modified_bessel_k{_order}")(_k(_order, False))
    aten(f"special_scaled_modified_bessel_k{_order}")(_k(_order, True))


# -------------------------------------------------------------------------------- first and second
def _waves(order: int, x: Any) -> tuple[Any, Any]:
    """The functions of the first and of the second kind of x from 8 on."""
    ratio = 8.0 / x
    u = ratio * ratio * 2.0 - 1.0
    p, q = polynomial(u, _P[order]), polynomial(u, _Q[order]) * ratio
    turned = x - (0.25 + 0.5 * order) * math.pi
    sine, cosine = turned.apply("sin"), turned.apply("cos")
    scale = (x * (0.5 * math.pi)).apply("rsqrt")
    return scale * (p * cosine - q * sine), scale * (p * sine + q * cosine)


@aten("special_bessel_j0")
def bessel_j0(x: Any) -> Any:
    size = abs(single(x))
    low = apply("minimum", size, 8.0)
    near = polynomial(low * low * (1 / 32) - 1.0, _J0_NEAR)
    far, _ = _waves(0, apply("maximum", size, 8.0))
    return apply("where", size < 8.0, near, far)


@aten("special_bessel_j1")
def bessel_j1(x: Any) -> Any:
    x = single(x)
    size = abs(x)
    low = apply("minimum", size, 8.0)
    near = polynomial(low * low * (1 / 32) - 1.0, _J1_NEAR) * low
    far, _ = _waves(1, apply("maximum", size, 8.0))
    return apply("where", size < 8.0, near, far) * x.apply("sign")


def _y(order: int) -> Any:
    def spelling(x: Any) -> Any:
        x = single(x)
        low = apply("where", (x > 0.0) & (x < 8.0), x, 1.0)
        u = low * low * (1 / 32) - 1.0
        log = low.apply("log") * (2 / math.pi)
        if order == 0:
            near = polynomial(u, _Y0_NEAR) + log * polynomial(u, _J0_NEAR)
        else:
            near = (polynomial(u, _Y1_NEAR) + log * polynomial(u, _J1_NEAR)) * low
            near = near - (2 / math.pi) / low
        _, far = _waves(order, apply("maximum", x, 8.0))
        end = apply("where", x.apply("equal", 0.0), -math.inf, math.nan)
        return apply("where", x > 0.0, apply("where", x < 8.0, near, far), end)

    return spelling


aten("special_bessel_y0")(_y(0))
aten("special_bessel_y1")(_y(1))
