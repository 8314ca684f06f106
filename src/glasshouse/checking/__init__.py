"""Whether a compiled model is right, and what is to blame where it is not."""
