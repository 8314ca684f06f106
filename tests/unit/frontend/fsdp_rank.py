"""One rank of a training with FSDP2, run by test_fsdp.py: eager, or compiled by glasshouse."""

import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def train(compiled):
    """The weights after three steps, put together from all ranks."""
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.Linear(8, 4))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    run = torch.compile(model, backend="glasshouse") if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(dist.get_rank() + 1)
    for _ in range(3):
        x = torch.randn(6, 8)
        optimizer.zero_grad()
        run(x).square().mean().backward()
        optimizer.step()
    return [p.full_tensor().detach() for p in model.parameters()]


def main(rank, world, store, out):
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=int(rank),
        world_size=int(world),
        timeout=timedelta(minutes=4),  # a rank that died is told as that, not as a test that hangs
    )
    from glasshouse.frontend.dynamo import compiled_graphs

    eager = train(False)
    assert not compiled_graphs()
    made = train(True)
    apart = max(float((a - b).abs().max()) for a, b in zip(eager, made, strict=True))
    phases = [c.phase for c in compiled_graphs()]
    native = all(c.runner.module is not None for c in compiled_graphs())
    dist.destroy_process_group()
    Path(out).write_text(
        f"{apart:.2e} {phases.count('forward')} {phases.count('backward')} {native}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
