"""Muon for matrices, AdamW for the embedding and the norms.

Muon (Jordan et al. 2024) takes the momentum's nearest orthogonal matrix as the update;
scaled as by Liu et al. 2025 (arXiv:2502.16982), one rate and one weight decay suit both
kinds of parameters. Fused matrices (query/key/value, gate/up) are treated part by part.
"""

from __future__ import annotations

import torch

import workers
from model import Llama
from precision import product_type

ROUNDS = ((3.4445, -4.7750, 2.0315),) * 5  # Newton-Schulz coefficients


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """About U V^T for the matrix U S V^T."""
    x = matrix.to(product_type(matrix.device.type))
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.t()
    x = x / (x.float().norm() + 1e-7).to(x.dtype)
    for a, b, c in ROUNDS:
        gram = x @ x.t()
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x if wide else x.t()


class Optimizer:
    """`rate` is set before each `step`; gradients are clipped to a norm of 1."""

    def __init__(self, model: Llama, weight_decay: float = 0.1, momentum: float = 0.95):
        self.decay, self.momentum = weight_decay, momentum
        self.model = model
        c = model.c
        self.parts: list[tuple[torch.nn.Parameter, list[int]]] = []
        for block in model.blocks:
            heads = [n * c.head_dim for n in (c.heads, c.kv_heads, c.kv_heads)]
            self.parts += [
                (block.attention.qkv.weight, heads),
                (block.attention.out.weight, [c.hidden]),
                (block.gate_up.weight, [c.intermediate] * 2),
                (block.down.weight, [c.hidden]),
            ]
        matrices = {id(p) for p, _ in self.parts}
        rest = [p for p in model.parameters() if id(p) not in matrices]
        self.adam = torch.optim.AdamW(
            rest, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0, foreach=True
        )
        size = sum(p.numel() for p in model.parameters())
        self.board = workers.Board(size) if workers.COUNT > 1 else None
        self.buffers = [torch.zeros_like(p) for p, _ in self.parts]

    @torch.no_grad()
    def step(self, rate: float) -> float:
        if self.board:
            self.board.average([p.grad for p in self.model.parameters()])
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        updates = []
        for n, ((p, sizes), buffer) in enumerate(zip(self.parts, self.buffers)):
            buffer.lerp_(p.grad, 1 - self.momentum)
            updates.append(p.grad.lerp(buffer, self.momentum))
            if workers.is_mine(n):
                for part in updates[-1].split(sizes):
                    part.copy_(orthogonal(part) * (0.2 * max(part.shape) ** 0.5))
        if self.board:
            self.board.share(updates)
        for (p, _), update in zip(self.parts, updates):
            p.mul_(1 - rate * self.decay).add_(update, alpha=-rate)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        self.model.zero_grad(set_to_none=True)
        return float(norm)

    def state_dict(self) -> dict:
        return {"adam": self.adam.state_dict(), "momentum": self.buffers}

    def load_state_dict(self, state: dict) -> None:
        self.adam.load_state_dict(state["adam"])
        for buffer, saved in zip(self.buffers, state["momentum"]):
            buffer.copy_(saved)
