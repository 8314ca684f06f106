"""Tells AOTAutograd that our backward graphs overwrite nothing that was saved for them.

AOTAutograd lists what a backward graph may write its own values over: saved tensors that nobody
else sees. It then refuses `backward(retain_graph=True)`, unless the first call of that backward
graph was one: a loop that retains later, or with another batch (whose backward graph is compiled
before anybody asks), fails with any backend that leaves the list as it is.
"""

from __future__ import annotations

from torch._guards import TracingContext


def donate_nothing() -> None:
    """Empty the list of the graphs that are being compiled; called once they are partitioned."""
    context = TracingContext.try_get()
    donated = getattr(None if context is None else context.fw_metadata, "bw_donated_idxs", None)
    if donated:
        donated.clear()  # where it is: a description for tensor subclasses holds it too
