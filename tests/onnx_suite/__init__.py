"""ONNX's own backend tests, run on the reference executor."""
