"""Declares why the ops that compute nothing have no samples."""

_SOURCE = "it computes nothing; the builder, printer and executor tests use it in every graph"
SAMPLES = {}
HOLES = {
    **{(name, "samples"): _SOURCE for name in ("input", "constant", "variable")},
    ("fused", "samples"): "its meaning is its body's; tests/unit/numpy_ref runs fused bodies",
}
