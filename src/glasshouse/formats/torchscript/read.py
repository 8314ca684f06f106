"""How a TorchScript archive becomes a recording: the code says the ops, the pickle the weights."""

from __future__ import annotations

from glasshouse.formats import torch_weights
from glasshouse.formats.archive import ForeignArchive
from glasshouse.formats.pickled_objects import Made, load
from glasshouse.formats.source import SourceFile
from glasshouse.formats.torch_weights import WeightTensor, leaves
from glasshouse.formats.torchscript.code import Code
from glasshouse.formats.torchscript.walk import Walk
from glasshouse.record import Recording, RecordingBuilder

GENERATOR = "torchscript"


def read(source: SourceFile) -> Recording:
    """The recording of an archive that `torch.jit.save` wrote."""
    with ForeignArchive(source) as archive:
        made = RecordingBuilder(source.stem, GENERATOR, source.budget)
        code = Code(archive, made)
        pickle = _member(archive, "data.pkl")
        root = load(archive.read(pickle), f"{source.name}: {pickle}", source.budget)
        cls = code.class_of(root.what) if isinstance(root, Made) else None
        methods = [m for m in cls.methods if not m.startswith("__")] if cls else []
        if not isinstance(root, Made) or not methods:
            return torch_weights.read(source)
        known = dict(leaves(root, source.budget))
        constants = _member(archive, "constants.pkl")
        if constants:
            kept = load(archive.read(constants), f"{source.name}: {constants}", source.budget)
            # The code calls them CONSTANTS.c0, c1 and so on.
            known |= {f"CONSTANTS.c{name}": v for name, v in leaves(kept, source.budget)}
        made.facts["class"] = root.what
        walk = Walk(source, made, code, known)
        for method in sorted(methods, key=lambda m: m != "forward"):
            walk.model(root.what, method)
    tensors = [v for v in known.values() if isinstance(v, WeightTensor)]
    made.facts["tensors"] = str(len(tensors))
    made.facts["bytes"] = str(sum(t.bytes for t in tensors))
    return made.finish()


def _member(archive: ForeignArchive, last: str) -> str:
    """The name of a member in the archive's one folder; "" if there is none."""
    found = [
        n for n in archive.names if n == last or (n.endswith(f"/{last}") and n.count("/") == 1)
    ]
    return found[0] if found else ""
