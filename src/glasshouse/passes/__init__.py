"""Passes: what they are, how they are configured and watched, and the pipeline of `optimize`."""

import glasshouse.passes.default  # noqa: F401  # registers the passes
from glasshouse.lower.target import Target
from glasshouse.passes.base import PIPELINE, Pass, PassSequence, pass_named, register_pass
from glasshouse.passes.context import PassContext
from glasshouse.passes.instrument import Instrument
from glasshouse.passes.pipeline import optimize, run_passes

__all__ = [
    "PIPELINE", "Instrument", "Pass", "PassContext", "PassSequence", "Target", "optimize",
    "pass_named", "register_pass", "run_passes",
]  # fmt: skip
