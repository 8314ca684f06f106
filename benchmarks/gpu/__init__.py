"""Models on a GPU beside PyTorch's ways to run them."""
