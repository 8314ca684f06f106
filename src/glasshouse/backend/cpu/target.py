"""Decides what the CPU target can do: its spellings, and the ops that have code of their own."""

from __future__ import annotations

from glasshouse.backend.cpu.attention import attention
from glasshouse.backend.cpu.batch_norm import batch_norm_training
from glasshouse.backend.cpu.conv import conv
from glasshouse.backend.cpu.conv_grad import conv_transpose, conv_weight_grad
from glasshouse.backend.cpu.library import arg_extreme, cumsum, scatter, scatter_nd, sort, take_grad
from glasshouse.backend.cpu.matmul import matmul
from glasshouse.backend.cpu.planes import plane_pool
from glasshouse.backend.cpu.pool import pool, pool_grad
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

CPU = Target("cpu", SPELL, FOLDS, ANCHORS, SCALAR_ONLY, ON_MASKS)
