"""The reference executor: what every op means, in NumPy."""

from glasshouse.numpy_ref.executor import run

__all__ = ["run"]
