"""Kernel IR interpreted with NumPy: slow, exact, without a compiler."""
