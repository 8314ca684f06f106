"""Tests that the registry drives: every op, crossed with everything that an op must do."""
