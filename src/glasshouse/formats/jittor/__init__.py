"""Jittor trace files (`.pkl`)."""
