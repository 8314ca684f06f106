"""Spellings of this family."""
