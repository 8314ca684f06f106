"""The CPU target: typical figures, spellings, the ops that have code of their own."""

from __future__ import annotations

import os

from glasshouse.backend.cpu.attention import attention
from glasshouse.backend.cpu.batch_norm import batch_norm_training
from glasshouse.backend.cpu.conv import conv
from glasshouse.backend.cpu.conv_grad import conv_transpose, conv_weight_grad
from glasshouse.backend.cpu.library import arg_extreme, cumsum, scatter, scatter_nd, sort, take_grad
from glasshouse.backend.cpu.matmul import matmul
from glasshouse.backend.cpu.planes import plane_pool
from glasshouse.backend.cpu.pool import pool, pool_grad
from glasshouse.backend.cpu.processor import processor_features
from glasshouse.backend.cpu.resize import resize, resize_grad
from glasshouse.backend.cpu.spelling import FOLDS, ON_MASKS, SCALAR_ONLY, SPELL
from glasshouse.lower.target import Anchor, Target

ANCHORS: dict[str, Anchor] = {
    "adaptive_avg_pool": plane_pool,
    "adaptive_max_pool": plane_pool,
    "adaptive_max_pool_indices": plane_pool,
    "argmax": arg_extreme,
    "argmin": arg_extreme,
    "attention": attention,
    "avg_pool": pool,
    "avg_pool_grad": pool_grad,
    "batch_norm_training": batch_norm_training,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "conv_weight_grad": conv_weight_grad,
    "cumsum": cumsum,
    "matmul": matmul,
    "max_pool": pool,
    "max_pool_grad": pool_grad,
    "max_pool_indices": plane_pool,
    "resize": resize,
    "resize_grad": resize_grad,
    "scatter": scatter,
    "scatter_nd": scatter_nd,
    "sort": sort,
    "take_grad": take_grad,
    "topk": sort,
}

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
    spell=SPELL,
    folds=FOLDS,
    anchors=ANCHORS,
    scalar_only=SCALAR_ONLY,
    on_masks=ON_MASKS,
    fallbacks=FALLBACKS,
)
