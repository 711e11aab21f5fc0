"""The optimizer: Muon for the matrices of the blocks, AdamW for the rest.

Muon moves a matrix by its momentum made orthogonal (Jordan et al. 2024), with
the step scaled to the size of an AdamW step, so that one rate serves both.
"""

from __future__ import annotations

import torch


def orthogonal(m: torch.Tensor) -> torch.Tensor:
    """`m` with its singular values brought near 1, by a quintic Newton-Schulz iteration."""
    x = m.t() if m.shape[0] > m.shape[1] else m
    x = (x / (x.norm() + 1e-7)).bfloat16()
    for _ in range(5):
        a = x @ x.t()
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    x = x.float()
    return x.t() if m.shape[0] > m.shape[1] else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr: float, momentum: float = 0.95, weight_decay: float = 0.1):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            beta = group["momentum"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["mean"] = torch.zeros_like(p)
                mean = state["mean"].lerp_(p.grad, 1 - beta)
                move = orthogonal(p.grad.lerp(mean, beta))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(move, alpha=-0.2 * group["lr"] * max(p.shape) ** 0.5)


class Optimizer:
    """Both optimizers behind one face; the rate comes with each step."""

    def __init__(self, model: torch.nn.Module):
        blocks = [p for p in model.blocks.parameters() if p.dim() == 2]
        rest = [p for n, p in model.named_parameters()
                if not (n.startswith("blocks") and p.dim() == 2)]
        self.parameters = blocks + rest
        self.parts = [
            Muon(blocks, lr=0.0),
            torch.optim.AdamW(rest, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0, foreach=True),
        ]

    def step(self, rate: float) -> None:
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict]:
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict]) -> None:
        for part, state in zip(self.parts, states):
            part.load_state_dict(state)
