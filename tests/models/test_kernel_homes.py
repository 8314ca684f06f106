"""Every kernel stands in the module that owns its weight, under that module's name.

What is expected is found from the recording alone: the traced ops that a kernel was made of, the
weights that these read, and the modules that PyTorch lists those weights under.
"""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("transformers")

import torch

import glasshouse as gh
from glasshouse.passes.instruments.record import Record
from glasshouse.record.schema import NEVER
from hf_models import CASES

HEAVY = ("matmul", "conv", "norm")
TURNING = ("Reshape", "Permute", "Cast")


class Kernels:
    """The last stage of an optimised model beside the ops that it was traced to."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        model, keywords = CASES[name]()
        model = model.eval()
        self.owners: dict[int, set[str]] = {}
        parameters = list(model.named_parameters(remove_duplicate=False))
        named = [*parameters, *model.named_buffers(remove_duplicate=False)]
        by_name = dict(named)
        same: dict[int, set[str]] = {}
        for key, tensor in named:
            same.setdefault(id(tensor), set()).add(key.rpartition(".")[0])
        graph = gh.trace(model, **keywords)
        with gh.PassContext() as context:
            context.instruments.append(record := Record())
            gh.optimize(graph)
        self.graph = record.recording.graphs[0]
        self.rows = {}
        for row in self.graph.nodes_until(len(self.graph.info.stages) - 1):
            self.rows[row.id] = row
            if row.op == "Constant" and row.name in by_name:
                self.owners[row.id] = same[id(by_name[row.name])]
        for body in record.recording.graphs[1:]:
            for row in body.stage(-1).nodes:
                self.rows.setdefault(row.id, row)

    def path(self, row) -> tuple[str, ...]:
        names, at = [], row.groups[0] if row.groups else NEVER
        while at != NEVER:
            group = self.graph.groups.row(at)
            names.append(group.name)
            at = group.parent
        return tuple(reversed(names))

    def traced(self, row) -> list:
        """The ops of the traced graph that it was made of."""
        found, seen, pending = {}, set(), [row.id]
        while pending:
            at = self.rows[pending.pop()]
            if at.id not in seen:
                seen.add(at.id)
                pending += [i for i in at.replaces if i in self.rows]
                if not at.pass_name:
                    found[at.id] = at
        return [found[i] for i in sorted(found)]

    def weight_owners(self, row) -> set[str]:
        pending, found = list(row.input_nodes), set()
        while pending:
            id = pending.pop()
            if id in self.owners:
                found |= self.owners[id]
            elif id in self.rows and self.rows[id].op in TURNING:
                pending += self.rows[id].input_nodes
        return found


kernels_of = cache(Kernels)


def common(paths):
    first = min(paths)
    depth = 0
    while all(p[: depth + 1] == first[: depth + 1] for p in paths) and depth < len(first):
        depth += 1
    return first[:depth]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["bert", "gpt2", "resnet", "llama", "t5"])
def test_a_kernel_stands_with_its_weight(name):
    kernels = kernels_of(name)
    checked = spanning = 0
    for row in kernels.graph.stage(-1).nodes:
        if row.kind == "source":
            continue
        ops = kernels.traced(row)
        products = [o for o in ops if o.kind in ("matmul", "conv")]
        heavy = products or [o for o in ops if o.kind == "norm"]
        owners = [kernels.weight_owners(o) for o in heavy]
        owners = [o for o in owners if o]
        if row.kind not in HEAVY or not owners:
            continue
        home = kernels.path(row)
        if "Attention" in row.op:  # it has no weight: the ops around it may have
            continue
        checked += 1
        if len(owners) == 1:
            assert ".".join(home) in owners[0], (row.op, home, owners)
        else:
            spanning += 1
            paths = [tuple(min(o).split(".")) for o in owners]
            assert home == common(paths), (row.op, home, paths)
            for path in paths:
                assert path[-1] in row.name, (row.name, path)
    assert checked >= 8
    assert spanning == {"bert": 2, "llama": 2, "t5": 5}.get(name, 0)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_attention_stands_where_it_was_called():
    kernels = kernels_of("gpt2")
    homes = [
        ".".join(kernels.path(row))
        for row in kernels.graph.stage(-1).nodes
        if "Attention" in row.op
    ]
    assert homes == ["transformer.h.0.attn", "transformer.h.1.attn"]
