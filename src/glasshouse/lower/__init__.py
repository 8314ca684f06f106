"""Fused groups become kernels: loops, templates, and the program that calls them."""
