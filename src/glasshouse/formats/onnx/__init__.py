"""ONNX models, read and written through the `onnx` package."""
