"""PyTorch exported programs (`.pt2`), read from the archive's own JSON."""
