"""Declares why an opaque node has no samples."""

SAMPLES = {}
HOLES = {
    ("opaque", "samples"): "it means what its call does; tests/unit/ops/test_opaque.py runs some",
}
