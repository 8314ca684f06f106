"""Values that nobody means to give: what is compiled must still do what PyTorch does."""
