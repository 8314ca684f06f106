"""The reference executor: what every op means, in NumPy."""

from glasshouse.numpy_ref.executor import run, run_node

__all__ = ["run", "run_node"]
