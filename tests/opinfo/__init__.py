"""PyTorch's own samples for its ops (OpInfo), traced, run and compared with PyTorch."""
