"""Past one machine: sets of models as tasks, here or on a Ray cluster; recordings of all ranks.

    import glasshouse as gh
    gh.distributed.compile(["a.onnx", "models.py:bert"], ray="auto")

What tasks make goes to the cache, and to the store behind it (GLASSHOUSE_CACHE).
"""

from glasshouse.distributed.drive import Report, compile
from glasshouse.distributed.ranks import record_ranks

__all__ = ["Report", "compile", "record_ranks"]
