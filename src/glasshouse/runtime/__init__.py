"""Compiled modules: built, loaded, run and measured."""
