"""Ops in PyTorch's words: what a target without a kernel for them runs on its own memory."""
