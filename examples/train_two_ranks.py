"""Tensor parallel training of an MLP on two ranks of this machine, compiled (needs PyTorch).

Each rank has half of the hidden layer; an all_reduce in the compiled graph adds what both computed.
"""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

RANKS = 2


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


def train(rank: int, store: str) -> None:
    os.environ["LOCAL_WORLD_SIZE"] = str(RANKS)  # as torchrun does: each rank has its share
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(MLP(), init_device_mesh("cpu", (RANKS,)), plan)
    run = torch.compile(model, backend="glasshouse")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, wanted = torch.randn(32, 16), torch.randint(0, 4, (32,))
    for step in range(10):
        optimizer.zero_grad()
        loss = F.cross_entropy(run(x), wanted)
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 3 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    if rank == 0:
        _show_graphs()
    dist.destroy_process_group()


def _show_graphs() -> None:
    """The graphs that Dynamo handed over, and the collectives in them."""
    from glasshouse.frontend.dynamo import compiled_graphs

    for graph in compiled_graphs():
        print(f"{graph.phase}: {len(graph.graph)} nodes")
        for node in graph.graph.nodes:
            if node.attrs.get("bytes"):
                group, count = node.attrs["group"], node.attrs["bytes"]
                print(f"  {node.attrs['target']}: {count} bytes over group {group}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (f"{folder}/store",), nprocs=RANKS)
