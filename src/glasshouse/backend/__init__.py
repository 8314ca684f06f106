"""Targets that programs can be compiled for."""
