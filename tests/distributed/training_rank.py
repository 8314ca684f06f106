"""One rank of a training, run by test_training.py: eager, then compiled by glasshouse; what came
of both is written as JSON."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh

sys.path.insert(0, str(Path(__file__).parents[1]))
from distributed.models import MODELS, spread


def train(name, how, mesh, steps, options=None):
    """The weights after so many steps, put together from all ranks, and the losses."""
    torch.manual_seed(0)
    model = spread(MODELS[name](), how, mesh)
    run = model
    if options is not None:
        run = torch.compile(model, backend="glasshouse", options=options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    # Ranks that share one batch, or have each its own.
    random = torch.Generator().manual_seed(7 if how == "tp" else 7 + dist.get_rank())
    losses = []
    for _ in range(steps):
        x, wanted = MODELS[name].batch(random)
        optimizer.zero_grad()
        out = run(x)
        loss = F.cross_entropy(out.flatten(0, -2), wanted.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return [p.detach().clone() for p in whole], losses


class Compiling:
    """What compiling costs this rank: from a graph that PyTorch hands over to one that can run.

    Dynamo and AOTAutograd, which trace on every rank, are PyTorch's, and not counted.
    """

    def __init__(self):
        from glasshouse.backend.cpu import cache
        from glasshouse.frontend.dynamo import entry

        self.seconds = 0.0  # of processors, compilers' too; waiting for another rank takes none
        self.compilers = 0  # how many were run
        self.programs = 0
        for name in ("import_graph_module", "Runner"):
            setattr(entry, name, self._timed(getattr(entry, name)))
        run = cache.run_program

        def counted(command):
            self.compilers += 1
            return run(command)

        cache.run_program = counted

    def _timed(self, step):
        def timed(*args, **given):
            begin = sum(os.times()[:4])
            made = step(*args, **given)
            self.seconds += sum(os.times()[:4]) - begin
            self.programs += hasattr(made, "module")
            return made

        return timed


def main(rank, world, store, out, case):
    case = json.loads(case)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(world),
        timeout=timedelta(minutes=8),  # a rank that died is told as that, not as a test that hangs
    )  # fmt: skip
    import glasshouse as gh
    from glasshouse.backend import claim
    from glasshouse.frontend.dynamo import compiled_graphs, reset

    claim._GRACE = claim.wait_limit()  # on a busy machine rank 0 may come late
    compiling = Compiling()
    mesh = init_device_mesh("cpu", (int(world),))
    found = []
    for how in case["spread"]:
        name, steps = case["model"], case["steps"]
        eager, losses = train(name, how, mesh, steps)
        reset()
        torch._dynamo.reset()
        made, again = train(name, how, mesh, steps, {"executor": case["executor"]})
        recorded = how == "tp" and "record" in case
        told = gh.distributed.record_ranks(case["record"], count=3) if recorded else []
        graphs = compiled_graphs()
        collectives = [
            {"target": n.attrs["target"], "group": n.attrs["group"], "bytes": n.attrs["bytes"]}
            for g in graphs
            for n in g.graph.nodes
            if n.op.name == "opaque" and n.attrs["bytes"]
        ]
        found.append({
            "spread": how,
            "apart": max(float((a - b).abs().max()) for a, b in zip(eager, made, strict=True)),
            "losses": [losses, again],
            "phases": [g.phase for g in graphs],
            "compiled": [g.runner.module is not None for g in graphs],
            "collectives": collectives,
            "told": told,
        })  # fmt: skip
    dist.destroy_process_group()
    cost = {k: getattr(compiling, k) for k in ("seconds", "compilers", "programs")}
    Path(out).write_text(json.dumps({"trained": found, "compiling": cost}))


if __name__ == "__main__":
    main(*sys.argv[1:])
