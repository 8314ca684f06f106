"""Glasshouse: a deep-learning compiler that you can see into."""

__version__ = "0.1.0"
