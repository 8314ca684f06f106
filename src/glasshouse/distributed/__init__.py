"""Compiling and tuning sets of models as tasks: on this machine's processes, or on a Ray cluster.

    import glasshouse as gh
    gh.distributed.compile(["a.onnx", "models.py:bert"], ray="auto")

What tasks make goes to the cache, and to the store behind it (GLASSHOUSE_CACHE).
"""

from glasshouse.distributed.drive import Report, compile

__all__ = ["Report", "compile"]
