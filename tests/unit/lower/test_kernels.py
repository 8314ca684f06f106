"""Kernels as they are printed: what lowering makes of typical groups."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from glasshouse.ir import GraphBuilder, symbol
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.printer import print_kernel

GOLDEN: list[tuple[Callable[[GraphBuilder], Any], str]] = []


def golden(build: Callable[[GraphBuilder], Any]) -> Callable[[GraphBuilder], Any]:
    """The docstring is what the kernel is printed as."""
    GOLDEN.append((build, dedent(build.__doc__ or "").strip()))
    return build


@golden
def elementwise(b: GraphBuilder) -> Any:
    """
    kernel k0_relu_multiply(x0: float32[32]) -> (y0: float32[32]) {
      ops Relu, Multiply
      for i1_ < 32 vector {
        let t1_: float32 = x0[i1_]
        let t2_: float32 = relu(t1_):float32 @0
        let t3_: float32 = 2.0:float32
        let t4_: float32 = multiply(t2_, t3_):float32 @1
        store y0[i1_] = t4_ @1
      }
    }
    """
    return b.input("float32", [4, 8]).apply("relu") * 2.0


@golden
def softmax(b: GraphBuilder) -> Any:
    """
    kernel k0_softmax(x0: float32[32]) -> (y0: float32[32]) {
      ops Softmax
      for i0_ < 4 serial {
        fold acc2_: float32 = max over r2_1_ < 8 vector {
          let t3_: float32 = x0[i0_ * 8 + r2_1_]
        } of t3_ @0
        fold acc6_: float32 = sum over r6_1_ < 8 vector {
          let t7_: float32 = x0[i0_ * 8 + r6_1_]
          let t8_: float32 = subtract(t7_, acc2_):float32 @0
          let t9_: float32 = exp(t8_):float32 @0
        } of t9_ @0
        for i1_ < 8 vector {
          let t1_: float32 = x0[i0_ * 8 + i1_]
          let t4_: float32 = subtract(t1_, acc2_):float32 @0
          let t5_: float32 = exp(t4_):float32 @0
          let t10_: float32 = divide(t5_, acc6_):float32 @0
          store y0[i0_ * 8 + i1_] = t10_ @0
        }
      }
    }
    """
    return b.input("float32", [4, 8]).apply("softmax", axis=-1)


@golden
def column_sums(b: GraphBuilder) -> Any:
    """
    kernel k0_sum(x0: float32[1920]) -> (y0: float32[48]) {
      ops Sum
      for i0_ < 48 vector {
        fold acc1_: float32 = sum over r1_0_ < 40 {
          let t2_: float32 = x0[r1_0_ * 48 + i0_]
        } of t2_ @0
        store y0[i0_] = acc1_ @0
      }
    }
    """
    return b.input("float32", [40, 48]).apply("sum", axes=[0])


@golden
def product_with_epilogue(b: GraphBuilder) -> Any:
    """
    kernel k0_matmul_add_relu(x0: float32[32], x1: float32[24], x2: float32[3]) -> (y0: float32[12]) {
      ops Matmul, Add, Relu
      variant matmul
      form panels[3, 1, 8, 3]: float32 of x1 once
      tile matmul{transpose_x=False, transpose_y=False} by gemm @0 {
        operand x0[a0_ * 8 + a1_] over a0_ < 4, a1_ < 8
        operand constant x1[a0_ * 3 + a1_] over a0_ < 8, a1_ < 3
        form panels[3, 1, 8, 3]: float32 of x1 once
        result float32[4, 3] as acc over m < 4, n < 3 {
          let t1_: float32 = x2[n]
          let t2_: float32 = add(acc, t1_):float32 @1
          let t3_: float32 = relu(t2_):float32 @2
          store y0[m * 3 + n] = t3_ @2
        }
      }
    }
    """  # noqa: E501
    weights, bias = b.weight(np.ones((8, 3), "f")), b.weight(np.ones(3, "f"))
    return (b.input("float32", [4, 8]) @ weights + bias).apply("relu")


@golden
def looked_up(b: GraphBuilder) -> Any:
    """
    kernel k0_take(x0: float32[30], x1: int64[3]) -> (y0: float32[18]) {
      ops Take
      for i0_ < 3 serial {
        let t1_: int64 = x1[i0_]
        for i1_ < 6 vector {
          let t2_: float32 = x0[checked(t1_, 5) * 6 + i1_] @0
          store y0[i0_ * 6 + i1_] = t2_ @0
        }
      }
    }
    """
    return b.input("float32", [5, 6]).apply("take", b.input("int64", [3]), axis=0)


@golden
def symbolic_concat(b: GraphBuilder) -> Any:
    """
    symbol n in 1..9
    kernel k0_concat(x0: float32[6*n], x1: float32[12]) -> (y0: float32[6*n + 12]) {
      ops Concat
      for i0_ < n + 2 serial {
        for i1_ < 6 vector {
          let t1_: float32 = x0[guarded(i0_, (n)) * 6 + i1_]
          let t2_: float32 = x1[guarded(i0_ + (-n), 2) * 6 + i1_]
          let t3_: float32 = if i0_ < (n) then t1_ else (t2_) @0
          store y0[i0_ * 6 + i1_] = t3_ @0
        }
      }
    }
    """
    x = b.input("float32", [symbol("n", 1, 9), 6])
    return x.apply("concat", b.input("float32", [2, 6]), axis=0)


@golden
def convolution(b: GraphBuilder) -> Any:
    """
    kernel k0_conv_relu(x0: float32[2048], x1: float32[9216]) -> (y0: float32[2048]) {
      ops Conv, Relu
      temporary copy0: float32[2048]
      temporary tmp2_0: float32[2048]
      workspace 16384
      variant winograd2
      form winograd[float32, 2, [0, 288, 9, 3, 1], [1, 1, 1, 32, 1, 1, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1]]: float32 of x1 once
      for i3_ < 64 serial {
        for i1_ < 32 serial {
          let t1_: float32 = x0[i1_ * 64 + i3_]
          store copy0[i3_ * 32 + i1_] = t1_
        }
      }
      tile conv{stride=[], padding=[1, 1], dilation=[], groups=1} by conv2d @0 {
        problem conv float32 1179648.0 1 8 8 32 8 8 32 3 3 1 1 1 1 1 1 1
        variants winograd2, winograd4, direct, im2col
        variant winograd2
        operand copy0[a2_ * 256 + a3_ * 32 + a1_] over a0_ < 1, a1_ < 32, a2_ < 8, a3_ < 8
        operand constant x1[a0_ * 288 + a1_ * 9 + a2_ * 3 + a3_] over a0_ < 32, a1_ < 32, a2_ < 3, a3_ < 3
        form winograd[float32, 2, [0, 288, 9, 3, 1], [1, 1, 1, 32, 1, 1, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1]]: float32 of x1 once
        result float32[1, 32, 8, 8] order [0, 2, 3, 1] as acc over pixel < 64, oc < 32 {
          store tmp2_0[pixel * 32 + oc] = acc @0
        }
      }
      for i1_ < 32 serial {
        for i3_ < 64 serial {
          let t3_: float32 = tmp2_0[i3_ * 32 + i1_]
          let t4_: float32 = relu(t3_):float32 @1
          store y0[i1_ * 64 + i3_] = t4_ @1
        }
      }
    }
    """  # noqa: E501
    weights = b.weight(np.ones((32, 32, 3, 3), "f"))
    return b.input("float32", [1, 32, 8, 8]).apply("conv", weights, padding=[1, 1]).apply("relu")


@pytest.mark.parametrize(("build", "text"), GOLDEN, ids=[build.__name__ for build, _ in GOLDEN])
def test_printed(
    build: Callable[[GraphBuilder], Any],
    text: str,
    lowered: Callable[[Callable[[GraphBuilder], Any]], Kernel],
) -> None:
    assert print_kernel(lowered(build)).strip() == text
