"""Instruments that come with Glasshouse, one a file; `PassContext` has a method for each."""
