"""Decides what the CPU target can do: its spellings, and the ops that have code of their own."""

from __future__ import annotations

from glasshouse.backend.cpu.attention import attention
from glasshouse.backend.cpu.conv import conv
from glasshouse.backend.cpu.matmul import matmul
from glasshouse.backend.cpu.pool import pool
from glasshouse.backend.cpu.spelling import FOLDS, ON_MASKS, SCALAR_ONLY, SPELL
from glasshouse.lower.target import Anchor, Target

ANCHORS: dict[str, Anchor] = {
    "attention": attention,
    "avg_pool": pool,
    "conv": conv,
    "matmul": matmul,
    "max_pool": pool,
}

CPU = Target("cpu", SPELL, FOLDS, ANCHORS, SCALAR_ONLY, ON_MASKS)
