"""Thin doors for scripts written for other systems: they run after changing their import lines."""
