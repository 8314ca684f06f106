"""Models that decide: world models, planners, returns over time, mixed agents, action chunks."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


# ------------------------------ decision transformer
class _Decision(nn.Module):
    def __init__(self, state: int, act: int, d: int, depth: int) -> None:
        super().__init__()
        self.time = nn.Embedding(200, d)
        self.ret, self.state, self.act = nn.Linear(1, d), nn.Linear(state, d), nn.Linear(act, d)
        self.ln = nn.LayerNorm(d)
        layer = nn.TransformerEncoderLayer(
            d, 4, 4 * d, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.net = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Linear(d, act), nn.Tanh())

    def forward(
        self,
        ret: torch.Tensor,
        state: torch.Tensor,
        act: torch.Tensor,
        step: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        b, t, _ = state.shape
        if mask is None:
            mask = torch.ones(b, t, dtype=torch.long)
        time = self.time(step)
        parts = (self.ret(ret) + time, self.state(state) + time, self.act(act) + time)
        x = torch.stack(parts, 1).permute(0, 2, 1, 3).reshape(b, 3 * t, -1)
        pad = torch.stack((mask, mask, mask), 1).permute(0, 2, 1).reshape(b, 3 * t) == 0
        causal = nn.Transformer.generate_square_subsequent_mask(3 * t)
        hide = torch.zeros(pad.shape).masked_fill(pad, float("-inf"))
        y = self.net(self.ln(x), mask=causal, src_key_padding_mask=hide)
        return self.head(y.reshape(b, t, 3, -1)[:, :, 1])


@model("decision transformer", trained=True)
def decision(batch: int = 8) -> Case:
    step = torch.arange(20).expand(batch, -1)
    return _Decision(17, 6, 96, 3), (
        torch.randn(batch, 20, 1),
        torch.randn(batch, 20, 17),
        torch.randn(batch, 20, 6),
        step,
    )


# ------------------------------ recurrent state space model, observed
class _GruNorm(nn.Module):
    def __init__(self, inp: int, size: int) -> None:
        super().__init__()
        self.size, self.layer = size, nn.Linear(inp + size, 3 * size, bias=False)
        self.norm = nn.LayerNorm(3 * size, eps=1e-3)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        reset, cand, update = torch.split(
            self.norm(self.layer(torch.cat([x, h], -1))), [self.size] * 3, -1
        )
        cand = torch.tanh(torch.sigmoid(reset) * cand)
        update = torch.sigmoid(update - 1)
        return update * cand + (1 - update) * h


class _Rssm(nn.Module):
    """Categorical states with straight-through gradients and given noise, KL with free bits."""

    def __init__(self, act: int, deter: int, stoch: int, classes: int) -> None:
        super().__init__()
        self.shape, self.deter = (stoch, classes), deter
        flat = stoch * classes
        self.enc = nn.Sequential(
            nn.Conv2d(3, 24, 4, 2, 1),
            nn.SiLU(),
            nn.Conv2d(24, 48, 4, 2, 1),
            nn.SiLU(),
            nn.Conv2d(48, 48, 4, 2, 1),
            nn.Flatten(),
        )
        self.inp = nn.Sequential(nn.Linear(flat + act, deter), nn.LayerNorm(deter), nn.SiLU())
        self.cell = _GruNorm(deter, deter)
        self.prior, self.post = nn.Linear(deter, flat), nn.Linear(deter + 48 * 16, flat)
        self.reward = nn.Linear(deter + flat, 41)

    def sample(
        self, logits: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logits = logits.unflatten(-1, self.shape)
        probs = 0.99 * logits.softmax(-1) + 0.01 / self.shape[1]
        hot = F.one_hot((probs.log() + noise).argmax(-1), self.shape[1]).float()
        return (hot + probs - probs.detach()).flatten(-2), probs.log()

    def forward(
        self, image: torch.Tensor, action: torch.Tensor, first: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        b, t = action.shape[:2]
        embed = self.enc(image.flatten(0, 1)).unflatten(0, (b, t))
        h, z = torch.zeros(b, self.deter), torch.zeros(b, math.prod(self.shape))
        priors, posts, feats = [], [], []
        for i in range(t):
            keep = (1 - first[:, i])[:, None]
            h, z, a = h * keep, z * keep, action[:, i] * keep
            h = self.cell(self.inp(torch.cat([z, a], -1)), h)
            _, prior = self.sample(self.prior(h), noise[i])
            z, post = self.sample(self.post(torch.cat([h, embed[:, i]], -1)), noise[i])
            priors.append(prior)
            posts.append(post)
            feats.append(torch.cat([h, z], -1))
        p, q = torch.stack(priors, 1), torch.stack(posts, 1)
        dyn = (q.detach().exp() * (q.detach() - p)).sum((-1, -2)).clamp(min=1.0).mean()
        rep = (q.exp() * (q - p.detach())).sum((-1, -2)).clamp(min=1.0).mean()
        logits = self.reward(torch.stack(feats, 1)).log_softmax(-1)
        bins = torch.linspace(-20, 20, 41)
        value = (logits.exp() * bins).sum(-1)
        return dyn + 0.1 * rep + value.mean(), torch.sign(value) * (torch.exp(value.abs()) - 1)


@model("world model that observes", trained=True)
def rssm(batch: int = 4) -> Case:
    noise = -torch.log(-torch.log(torch.rand(10, batch, 12, 12).clamp(1e-6, 1 - 1e-6)))
    return _Rssm(4, 128, 12, 12), (
        torch.rand(batch, 10, 3, 32, 32),
        torch.randn(batch, 10, 4),
        (torch.rand(batch, 10) < 0.1).float(),
        noise,
    )


# ------------------------------ impala's v-trace
class _VTrace(nn.Module):
    def __init__(self, actions: int, d: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(4, 16, 8, 4),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 16, d),
            nn.ReLU(),
        )
        self.core, self.actions = nn.LSTMCell(d + actions + 1, d), actions
        self.pi, self.v = nn.Linear(d, actions), nn.Linear(d, 1)

    def forward(self, frame: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        t, b = frame.shape[:2]
        x = self.conv(frame.flatten(0, 1).float() / 255.0)
        hot = F.one_hot(batch["last_action"].view(-1), self.actions).float()
        x = torch.cat([x, batch["reward"].clamp(-1, 1).view(-1, 1), hot], -1).view(t, b, -1)
        h = c = torch.zeros(b, self.core.hidden_size)
        outs = []
        for xi, nd in zip(x.unbind(), (~batch["done"]).float().unbind(), strict=True):
            h, c = self.core(xi, (h * nd[:, None], c * nd[:, None]))
            outs.append(h)
        y = torch.stack(outs)
        logits, values = self.pi(y), self.v(y).squeeze(-1)
        logp = torch.gather(F.log_softmax(logits, -1), -1, batch["action"][..., None]).squeeze(-1)
        with torch.no_grad():
            rhos = torch.exp(logp - batch["behaviour"])
            clipped = rhos.clamp(max=1.0)
            discounts = (~batch["done"]).float() * 0.99
            after = torch.cat([values[1:], values[-1:]])
            deltas = clipped * (batch["reward"] + discounts * after - values)
            acc, found = torch.zeros(b), []
            for i in reversed(range(t)):
                acc = deltas[i] + discounts[i] * clipped[i] * acc
                found.append(acc)
            found.reverse()
            vs = torch.stack(found) + values
            adv = clipped * (batch["reward"] + discounts * torch.cat([vs[1:], vs[-1:]]) - values)
        entropy = (F.softmax(logits, -1) * F.log_softmax(logits, -1)).sum()
        loss = -(logp * adv).sum() + 0.5 * (vs - values).pow(2).sum() + 0.01 * entropy
        return loss / (t * b)


@model("v-trace of actors", trained=True)
def vtrace(batch: int = 4) -> Case:
    shape = (12, batch)
    return _VTrace(6, 128), (
        torch.randint(0, 256, (*shape, 4, 48, 48), dtype=torch.uint8),
        {
            "last_action": torch.randint(0, 6, shape),
            "action": torch.randint(0, 6, shape),
            "reward": torch.randn(shape),
            "done": torch.rand(shape) < 0.1,
            "behaviour": -torch.rand(shape) * 2,
        },
    )


# ------------------------------ planning by elites
class _Planner(nn.Module):
    """Model-predictive path integrals of TD-MPC: samples, elites by top k, softmax of returns."""

    def __init__(self, obs: int, act: int, d: int, horizon: int, steps: int) -> None:
        super().__init__()
        self.act, self.horizon, self.steps = act, horizon, steps

        def mlp(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(nn.Linear(a, d), nn.LayerNorm(d), nn.Mish(), nn.Linear(d, b))

        self.enc, self.dyn, self.rew = mlp(obs, d), mlp(d + act, d), mlp(d + act, 1)
        self.qs = nn.ModuleList(mlp(d + act, 1) for _ in range(2))
        self.pi = mlp(d, act)

    def value(self, z: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        total, discount = torch.zeros(z.shape[0], 1), 1.0
        for t in range(self.horizon):
            za = torch.cat([z, actions[t]], -1)
            total = total + discount * self.rew(za)
            z = F.softmax(self.dyn(za).unflatten(-1, (-1, 8)), -1).flatten(-2)
            discount *= 0.99
        za = torch.cat([z, torch.tanh(self.pi(z))], -1)
        return total + discount * torch.stack([q(za) for q in self.qs]).min(0).values

    def forward(self, obs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        n = noise.shape[2]
        z = self.enc(obs).expand(n, -1)
        mean, std = torch.zeros(self.horizon, self.act), 2 * torch.ones(self.horizon, self.act)
        for i in range(self.steps):
            actions = (mean[:, None] + std[:, None] * noise[i]).clamp(-1, 1)
            value = self.value(z, actions).nan_to_num(0).squeeze(1)
            best, at = torch.topk(value, 32, dim=0)
            elite = actions[:, at]
            score = torch.exp(0.5 * (best - best.max(0)[0]))
            score = (score / score.sum(0)).unsqueeze(-1)
            mean = (score * elite).sum(1)
            std = torch.sqrt((score * (elite - mean[:, None]) ** 2).sum(1)).clamp(0.05, 2)
        return mean[0]


@model("planner of elites")
def planner(batch: int = 256) -> Case:
    return _Planner(24, 6, 128, 4, 4), (torch.randn(1, 24), torch.randn(4, 4, batch, 6))


# ------------------------------ mixed agents
class _Qmix(nn.Module):
    def __init__(self, agents: int, obs: int, state: int, actions: int, d: int) -> None:
        super().__init__()
        self.n, self.d = agents, d
        self.fc, self.rnn, self.out = (
            nn.Linear(obs + agents, 64),
            nn.GRUCell(64, 64),
            nn.Linear(64, actions),
        )
        self.w1, self.w2 = nn.Linear(state, agents * d), nn.Linear(state, d)
        self.b1 = nn.Linear(state, d)
        self.b2 = nn.Sequential(nn.Linear(state, d), nn.ReLU(), nn.Linear(d, 1))

    def forward(
        self, obs: torch.Tensor, state: torch.Tensor, action: torch.Tensor, avail: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        b, t, n, _ = obs.shape
        ids = torch.eye(n).expand(b, n, n)
        h, qs = torch.zeros(b * n, 64), []
        for i in range(t):
            x = F.relu(self.fc(torch.cat([obs[:, i], ids], -1).view(b * n, -1)))
            h = self.rnn(x, h)
            qs.append(self.out(h).view(b, n, -1))
        q = torch.stack(qs, 1)
        chosen = q.gather(3, action).squeeze(3).view(-1, 1, n)
        q = q.masked_fill(avail == 0, -9999999.0)
        s = state.reshape(b * t, -1)
        w1 = torch.abs(self.w1(s)).view(-1, n, self.d)
        hidden = F.elu(torch.bmm(chosen, w1) + self.b1(s).view(-1, 1, self.d))
        total = torch.bmm(hidden, torch.abs(self.w2(s)).view(-1, self.d, 1)) + self.b2(s).view(
            -1, 1, 1
        )
        return total.view(b, t), q.argmax(-1)


@model("agents mixed by hypernetworks", trained=True)
def qmix(batch: int = 16) -> Case:
    return _Qmix(5, 40, 60, 9, 32), (
        torch.randn(batch, 16, 5, 40),
        torch.randn(batch, 16, 60),
        torch.randint(0, 9, (batch, 16, 5, 1)),
        torch.randint(0, 2, (batch, 16, 5, 9)),
    )


# ------------------------------ actions in chunks, conditioned
class _Chunks(nn.Module):
    """ACT: a style from a variational encoder, an nn.Transformer over image features."""

    def __init__(self, d: int, joints: int, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk
        self.back = nn.Sequential(
            nn.Conv2d(3, 32, 7, 4, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, d, 3, 4, 1)
        )
        self.style_in, self.style = nn.Linear(joints, d), nn.Linear(d, 2 * 16)
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, batch_first=True)
        self.cvae = nn.TransformerEncoder(layer, 1)
        self.tr = nn.Transformer(d, 4, 2, 2, 2 * d, 0.0, batch_first=True)
        self.q, self.latent, self.proprio = (
            nn.Embedding(chunk, d),
            nn.Linear(16, d),
            nn.Linear(joints, d),
        )
        self.head, self.pad = nn.Linear(d, joints), nn.Linear(d, 1)

    def forward(
        self, image: torch.Tensor, qpos: torch.Tensor, actions: torch.Tensor, is_pad: torch.Tensor
    ) -> dict[str, torch.Tensor] | tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.cat([qpos[:, None], actions], 1)
        pad = F.pad(is_pad, (1, 0), value=False)
        mu, logvar = self.style(
            self.cvae(self.style_in(tokens), src_key_padding_mask=pad)[:, 0]
        ).chunk(2, -1)
        feats = self.back(image).flatten(2).transpose(1, 2)
        src = torch.cat([self.latent(mu)[:, None], self.proprio(qpos)[:, None], feats], 1)
        y = self.tr(src, self.q.weight.expand(image.shape[0], -1, -1))
        found = self.head(y)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        return torch.where(is_pad[..., None], torch.zeros(()), (found - actions).abs()), kl


@model("actions in chunks", trained=True)
def action_chunks(batch: int = 2) -> Case:
    pad = torch.zeros(batch, 20, dtype=torch.bool)
    pad[0, 15:] = True
    return _Chunks(96, 14, 20), (
        torch.randn(batch, 3, 96, 96),
        torch.randn(batch, 14),
        torch.randn(batch, 20, 14),
        pad,
    )
