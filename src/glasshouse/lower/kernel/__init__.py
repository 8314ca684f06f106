"""Kernel IR: typed loops, lets, stores, folds and tiles, which know no language and no machine.

All of it is immutable and compares by content. A kernel reads and writes `Buffer`s; a position in a
buffer is an `Index` (flat, in elements, in the order of the layout).
"""
