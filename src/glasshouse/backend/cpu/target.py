"""The CPU target: typical figures, and what lowering may use there."""

from __future__ import annotations

import os

from glasshouse.backend.cpu.alternatives import alternatives
from glasshouse.backend.cpu.attention import attention
from glasshouse.backend.cpu.bags import bags
from glasshouse.backend.cpu.batch_norm import batch_norm_training
from glasshouse.backend.cpu.blocking import estimate
from glasshouse.backend.cpu.conv3d import by_weights, convolution, transposed
from glasshouse.backend.cpu.factor import factor
from glasshouse.backend.cpu.fourier import fourier
from glasshouse.backend.cpu.groups import grouped
from glasshouse.backend.cpu.library import library
from glasshouse.backend.cpu.matmul import matmul
from glasshouse.backend.cpu.nests import PARALLEL_FROM
from glasshouse.backend.cpu.planes import plane_pool
from glasshouse.backend.cpu.pool import pool, pool_grad
from glasshouse.backend.cpu.processor import processor_features
from glasshouse.backend.cpu.recurrent import recurrent
from glasshouse.backend.cpu.resize import resize, resize_grad
from glasshouse.backend.cpu.routines import ROUTINES
from glasshouse.backend.cpu.running import running
from glasshouse.backend.cxx.elements import VECTOR_TYPE
from glasshouse.backend.cxx.spelling import FOLDS, ON_MASKS, SCALAR_ONLY, SPELL
from glasshouse.ir.dtype import NARROW, bool_, float32, float64, int8, uint8
from glasshouse.lower.target import Target, TileMaker, Vectors

TILES: dict[str, TileMaker] = {
    "adaptive_avg_pool": plane_pool,
    "adaptive_max_pool": plane_pool,
    "adaptive_max_pool_indices": plane_pool,
    "argmax": library,
    "argmin": library,
    "attention": attention,
    "avg_pool": pool,
    "avg_pool_grad": pool_grad,
    "batch_norm_training": batch_norm_training,
    "cholesky": factor,
    "conv": convolution,
    "conv_transpose": transposed,
    "conv_weight_grad": by_weights,
    "cummax": running,
    "cumprod": running,
    "cumsum": running,
    "embedding_bag": bags,
    "fft": fourier,
    "grouped_matmul": grouped,
    "householder": factor,
    "linear_recurrence": running,
    "logcumsumexp": running,
    "lu": factor,
    "matmul": matmul,
    "max_pool": pool,
    "max_pool_grad": pool_grad,
    "max_pool_indices": plane_pool,
    "nth": library,
    "recurrent": recurrent,
    "recurrent_grad": recurrent,
    "reflections": factor,
    "resize": resize,
    "resize_grad": resize_grad,
    "row_order": factor,
    "scatter": library,
    "scatter_nd": library,
    "sort": library,
    "take_grad": library,
    "topk": library,
    "triangle_solve": factor,
}

WIDEST = 16
"""Lanes of the widest vector."""

VECTORS = Vectors(
    elements=frozenset(VECTOR_TYPE),
    arithmetic=frozenset({float64, float32, *NARROW}),
    bytes=frozenset({int8, uint8}),
    mask=bool_,
    on_masks=ON_MASKS,
    scalar_only=SCALAR_ONLY,
    folds=frozenset(name for name, fold in FOLDS.items() if fold.lanes),
)

FALLBACKS = {
    "opaque": "its meaning is known only to whoever brought it",
    "cond": "Python chooses between its branches, which are compiled",
    "while_loop": "Python goes round; its test and its body are compiled",
    "scan": "Python goes round; its body is compiled",
}

_CORES = os.cpu_count() or 1

# Typical figures, not measured: 50 Gop/s and 12 GB/s for a core.
CPU = Target(
    "cpu",
    cores=_CORES,
    operations=50e9 * _CORES,
    bandwidth=12e9 * min(_CORES, 8),
    launch=2e-6,
    low_precision=("bfloat16",) if "avx512_bf16" in processor_features() else (),
    elementwise=frozenset(SPELL),
    folds=frozenset(FOLDS),
    tiles=TILES,
    needs=lambda tile: ROUTINES[tile.routine].needs(tile),
    vectors=VECTORS,
    widest=WIDEST,
    parallel_from=PARALLEL_FROM,
    cuts=True,
    shifts=1,
    fallbacks=FALLBACKS,
    alternatives=alternatives,
    estimate=estimate,
    measured=frozenset({"conv", "matmul"}),
    turned=frozenset({"scatter"}),
    widened=frozenset({"conv_transpose", "conv_weight_grad"}),
)
