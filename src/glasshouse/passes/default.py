"""The order of the default pipeline; importing this file registers every pass."""

from __future__ import annotations

from glasshouse.passes.assign_layouts import AssignLayouts
from glasshouse.passes.auto_mix_precision import AutoMixPrecision
from glasshouse.passes.base import PIPELINE
from glasshouse.passes.eliminate_barrier import EliminateBarrier
from glasshouse.passes.fold_constant import FoldConstant
from glasshouse.passes.fuse_operator import FuseOperator
from glasshouse.passes.mark_views import MarkViews
from glasshouse.passes.plan_memory import PlanMemory
from glasshouse.passes.recompute import Recompute
from glasshouse.passes.resolve_variant import ResolveVariant
from glasshouse.passes.subgraph_rewrite import SubgraphRewrite

PIPELINE[:] = [
    p.name
    for p in (
        FoldConstant,
        SubgraphRewrite,
        AutoMixPrecision,
        Recompute,
        FuseOperator,
        EliminateBarrier,
        AssignLayouts,
        MarkViews,
        ResolveVariant,
        PlanMemory,
    )
]
