"""A PyTorch MLP through AITemplate's workflow, on the CPU: build, compile, check, time.

A script for AITemplate needs three changes: its imports, the device, the element type. Needs
PyTorch and a C++ compiler.
"""

import tempfile

import torch

from glasshouse.compat.aitemplate.compiler import compile_model
from glasshouse.compat.aitemplate.frontend import Tensor, nn
from glasshouse.compat.aitemplate.testing import detect_target
from glasshouse.compat.aitemplate.testing.benchmark_pt import benchmark_torch_function


class TorchMlp(torch.nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.dense1 = torch.nn.Linear(hidden, 4 * hidden)
        self.dense2 = torch.nn.Linear(4 * hidden, hidden)
        self.layernorm = torch.nn.LayerNorm(hidden, eps=1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.gelu(self.dense1(x), approximate="tanh")
        return self.layernorm(self.dense2(y) + x)


class Mlp(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.dense1 = nn.Linear(hidden, 4 * hidden, specialization="fast_gelu")
        self.dense2 = nn.Linear(4 * hidden, hidden, specialization="add")
        self.layernorm = nn.LayerNorm(hidden, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        return self.layernorm(self.dense2(self.dense1(x), x))


def main(batch: int = 64, hidden: int = 512, count: int = 20) -> float:
    torch.manual_seed(0)
    theirs = TorchMlp(hidden).eval()
    x = torch.randn(batch, hidden)

    ours = Mlp(hidden)
    ours.name_parameter_tensor()
    weights = {name.replace(".", "_"): p.detach() for name, p in theirs.named_parameters()}
    X = Tensor(shape=[batch, hidden], name="X", dtype="float32", is_input=True)
    Y = ours(X)
    Y._attrs["is_output"] = True
    Y._attrs["name"] = "Y"

    with (
        tempfile.TemporaryDirectory() as workdir,
        compile_model(Y, detect_target(), workdir, "mlp", constants=weights) as model,
        torch.inference_mode(),
    ):
        y = torch.empty(batch, hidden)
        model.run_with_tensors({"X": x}, [y])
        difference = float((y - theirs(x)).abs().max())
        print(f"largest difference from PyTorch: {difference:.1e}")

        mean, deviation, _ = model.benchmark_with_tensors([x], [y], count=count)
        print(f"glasshouse: {mean:.3f} ms (standard deviation {deviation:.3f})")
        print(f"pytorch:    {benchmark_torch_function(count, theirs, x):.3f} ms")
    return difference


if __name__ == "__main__":
    main()
