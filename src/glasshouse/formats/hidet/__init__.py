"""Hidet's flow graph JSON, as its tutorial and `netron.dump` write it."""
