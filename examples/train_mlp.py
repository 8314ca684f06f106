"""Training with lazy tensors: a small network learns to tell two spirals apart.

Each step records one graph (forward, backward, update) and runs it at its end. Needs NumPy alone.
"""

import numpy as np

import glasshouse as gh
from glasshouse import nn, optim


class Net(nn.Module):
    def __init__(self, width: int = 32) -> None:
        self.body = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.head = nn.Linear(width, 2)

    def forward(self, x: gh.Tensor) -> gh.Tensor:
        return self.head(self.body(x))


def spirals(count: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Points on two spirals, and which of the two each is on."""
    rng = np.random.default_rng(0)
    turn = np.linspace(0.3, 1.0, count)
    points = []
    for arm in (0, np.pi):
        angle = 3 * np.pi * turn + arm
        points.append(np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1))
    noise = rng.normal(0, 0.02, (2 * count, 2))
    return (np.concatenate(points) + noise).astype(np.float32), np.repeat([0, 1], count)


def main(steps: int = 150) -> float:
    gh.manual_seed(0)
    points, arms = spirals()
    x, target = gh.from_numpy(points), gh.from_numpy(arms)
    model = Net()
    optimizer = optim.AdamW(model.named_parameters(), lr=0.02)

    def step(x: gh.Tensor, target: gh.Tensor) -> gh.Tensor:
        loss = nn.functional.cross_entropy(model(x), target)
        optimizer.step(loss)
        return loss

    graph = gh.trace(step, x, target)
    phases = [n.origin.label("phase") or "forward" for n in graph.nodes if n.inputs]
    print("one step:", ", ".join(f"{phases.count(p)} {p}" for p in dict.fromkeys(phases)), "ops")

    for number in range(steps):
        loss = step(x, target)
        if number % 25 == 0:
            print(f"step {number:3}: loss {loss.item():.4f}")
    with gh.no_grad():
        right = (model(x).argmax(1) == target).float().mean().item()
    print(f"right: {right:.1%}")
    return right


if __name__ == "__main__":
    main()
