"""MLIR text: StableHLO and any other dialect, generic or as tools print it."""
