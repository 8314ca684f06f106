"""Foreign formats into and out of recordings."""
