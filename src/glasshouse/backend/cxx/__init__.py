"""What generated C++ for processors and for GPUs has in common: types, numbers, sizes, elements."""
