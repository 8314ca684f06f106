"""Core ML models (`.mlmodel`, `.mlpackage`): programs, neural networks and pipelines as graphs."""
