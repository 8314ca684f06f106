"""Whether the numbers are still right: error measures, tolerances, and finding what broke them."""

from glasshouse.numerics.bisect import smallest_failing
from glasshouse.numerics.inputs import random_inputs
from glasshouse.numerics.measure import Error, compare, compare_all
from glasshouse.numerics.tolerance import tolerance_of

__all__ = [
    "Error", "compare", "compare_all", "random_inputs", "smallest_failing", "tolerance_of",
]  # fmt: skip
