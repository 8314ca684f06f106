"""Random numbers: known answers, distributions, and the same mask forwards and backwards."""

from __future__ import annotations

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import GraphBuilder, symbol
from glasshouse.numpy_ref import run
from glasshouse.ops.philox import words


def _run(op: str, seed: int, **attrs: object) -> np.ndarray:
    builder = GraphBuilder()
    graph = builder.finish(builder.apply(op, builder.constant(seed), **attrs))
    return run(graph, [])[0]


def test_philox_known_answers() -> None:
    # Published with the generator: counter 0 with key 0, ten rounds.
    got = [int(w[0]) for w in words(0, 1)]
    assert got == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def _plain(seed: int, index: int) -> list[int]:
    """The documented steps with Python integers."""
    mask = 2**32 - 1
    c = [index & mask, index >> 32, 0, 0]
    k = [seed % 2**64 & mask, seed % 2**64 >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


@pytest.mark.parametrize("seed", [0, 1, -1, 2**62 + 12345, -(2**63)])
def test_words_follow_the_documented_steps(seed: int) -> None:
    got = np.stack(words(seed, 50), axis=1)
    assert got.tolist() == [_plain(seed, i) for i in range(50)]


def test_uniform_follows_the_documented_steps() -> None:
    got = _run("uniform", 9, shape=[4, 5], low=-1.0, high=3.0).reshape(-1)
    for i in range(20):
        u = np.float32((_plain(9, i)[0] >> 8) * 2.0**-24)
        assert got[i] == np.float32(-1) + u * np.float32(4)


def test_normal_follows_the_documented_steps() -> None:
    got = _run("normal", 9, shape=[20], mean=2.0, std=3.0)
    for i in range(20):
        w = _plain(9, i)
        a, b = ((w[0] >> 8) + 1) * 2.0**-24, (w[1] >> 8) * 2.0**-24
        exact = 2 + 3 * np.sqrt(-2 * np.log(a)) * np.cos(2 * np.pi * b)
        assert got[i] == pytest.approx(exact, rel=1e-5, abs=1e-5)


def test_distributions() -> None:
    count = 200_000  # the standard error of a mean is 1/450 of the deviation
    u = _run("uniform", 3, shape=[count]).astype(np.float64)
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 0.005
    assert abs(u.var() - 1 / 12) < 0.002
    z = _run("normal", 3, shape=[count]).astype(np.float64)
    assert abs(z.mean()) < 0.015
    assert abs(z.var() - 1) < 0.02
    assert abs((z**3).mean()) < 0.05
    assert abs((z**4).mean() - 3) < 0.15
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.015


def test_same_seed_same_numbers_other_seed_others() -> None:
    a, b, c = (_run("normal", seed, shape=[100]) for seed in (5, 5, 6))
    np.testing.assert_array_equal(a, b)
    assert not np.any(a == c)
    # A longer tensor begins with the numbers of a shorter one.
    np.testing.assert_array_equal(_run("normal", 5, shape=[7, 11]).reshape(-1), a[:77])


def test_element_types_hold_the_same_numbers_rounded() -> None:
    wide = _run("uniform", 5, shape=[100], dtype="float64")
    np.testing.assert_array_equal(_run("uniform", 5, shape=[100]), wide)
    half = _run("uniform", 5, shape=[100], dtype="float16")
    np.testing.assert_array_equal(half, wide.astype(np.float16))


def test_symbolic_shape() -> None:
    builder = GraphBuilder()
    n = symbol("n", 1)
    x = builder.input("float32", [n, 3])
    seed = builder.apply("cast", builder.constant(5), dtype="int64")
    made = builder.apply("uniform", seed, shape=[n, 3])
    graph = builder.finish(made + x, builder.apply("normal", seed, shape=[n]))
    total, z = run(graph, [np.zeros((4, 3), np.float32)])
    np.testing.assert_array_equal(total, _run("uniform", 5, shape=[4, 3]))
    np.testing.assert_array_equal(z, _run("normal", 5, shape=[4]))


@pytest.mark.parametrize("p", [0.0, 0.25, 0.9])
def test_dropout_keeps_the_share_and_the_mean(p: float) -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [100_000])
    graph = builder.finish(x.apply("dropout", builder.constant(11), p=p))
    y = run(graph, [np.ones(100_000, np.float32)])[0]
    assert abs((y == 0).mean() - p) < 0.006
    np.testing.assert_allclose(y[y != 0], 1 / (1 - p), 1e-6)
    kept = _run("uniform", 11, shape=[100_000]) >= p
    np.testing.assert_array_equal(y != 0, kept)


def test_dropout_of_everything_keeps_nothing_not_even_nan() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [3])
    graph = builder.finish(x.apply("dropout", builder.constant(1), p=1.0))
    given = np.array([1, np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(run(graph, [given])[0], [0, 0, 0])
