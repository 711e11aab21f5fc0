"""A Llama in plain PyTorch: the arithmetic of HF's LlamaForCausalLM.

RMSNorm, rotate-half RoPE, grouped-query attention, SwiGLU, no biases, tied
embeddings. Query/key/value and gate/up are one matrix each here, for speed;
`export.py` splits them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass(frozen=True)
class Config:
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    max_positions: int = 1024
    rope_theta: float = 10000.0
    eps: float = 1e-5


# The target is trained at growing depth; `grow.py` turns one of them into the next.
SHAPES = {
    "target-3": Config(
        vocab=4096, hidden=384, layers=3, heads=6, kv_heads=2, head_dim=64, intermediate=1024
    ),
    "drafter": Config(
        vocab=4096, hidden=192, layers=2, heads=6, kv_heads=2, head_dim=32, intermediate=512
    ),
}
for _layers in (6, 12):
    SHAPES[f"target-{_layers}"] = replace(SHAPES["target-3"], layers=_layers)


def has_fused_attention(x: torch.Tensor) -> bool:
    """Whether PyTorch has an attention kernel that is faster than products and a softmax."""
    return x.is_cuda and hasattr(F, "scaled_dot_product_attention")


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class SwiGLU(torch.autograd.Function):
    """silu(gate) * up in float32 throughout: torch's bfloat16 silu is slow on a CPU."""

    @staticmethod
    def forward(ctx, gate_up: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate_up)
        gate, up = gate_up.float().chunk(2, dim=-1)
        return (F.silu(gate) * up).to(gate_up.dtype)

    @staticmethod
    def backward(ctx, by_out: torch.Tensor) -> torch.Tensor:
        (gate_up,) = ctx.saved_tensors
        gate, up = gate_up.float().chunk(2, dim=-1)
        by_out = by_out.float()
        by_gate = torch.ops.aten.silu_backward(by_out * up, gate)
        return torch.cat((by_gate, by_out * F.silu(gate)), dim=-1).to(gate_up.dtype)


class Attention(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.qkv = nn.Linear(c.hidden, (c.heads + 2 * c.kv_heads) * c.head_dim, bias=False)
        self.out = nn.Linear(c.heads * c.head_dim, c.hidden, bias=False)

    def forward(self, x, cos, sin, mask, cache):
        c, (batch, steps, _) = self.c, x.shape
        group = c.heads // c.kv_heads
        qkv = self.qkv(x).view(batch, steps, -1, c.head_dim)
        qk, v = qkv.split([c.heads + c.kv_heads, c.kv_heads], dim=2)
        q, k = rotate(qk, cos, sin).split([c.heads, c.kv_heads], dim=2)
        if has_fused_attention(x) and cache is None and steps > 1:
            return self.fused(q.to(v.dtype), k.to(v.dtype), v)
        # The query heads that share a key/value head become rows of one product.
        q = (q * c.head_dim**-0.5).view(batch, steps, c.kv_heads, group, c.head_dim)
        q = q.permute(0, 2, 3, 1, 4)
        q = q.reshape(batch * c.kv_heads, group * steps, c.head_dim)
        k = k.transpose(1, 2).reshape(batch * c.kv_heads, steps, c.head_dim)
        v = v.transpose(1, 2).reshape(batch * c.kv_heads, steps, c.head_dim)
        if cache is not None:
            k, v = cache.append(k, v)
        scores = torch.bmm(q, k.transpose(1, 2)).float()
        if mask is not None:
            scores = scores + mask.repeat(group, 1)
        y = torch.bmm(scores.softmax(-1).to(v.dtype), v)
        y = y.view(batch, c.kv_heads, group, steps, c.head_dim).permute(0, 3, 1, 2, 4)
        return self.out(y.reshape(batch, steps, -1))

    def fused(self, q, k, v):
        """Causal attention of whole rows by PyTorch's own kernel, where there is one."""
        c, (batch, steps) = self.c, q.shape[:2]
        group = c.heads // c.kv_heads
        k, v = (x.repeat_interleave(group, dim=2) for x in (k, v))
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, steps, -1))


class Block(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.attention_norm = RMSNorm(c.hidden, c.eps)
        self.attention = Attention(c)
        self.mlp_norm = RMSNorm(c.hidden, c.eps)
        self.gate_up = nn.Linear(c.hidden, 2 * c.intermediate, bias=False)
        self.down = nn.Linear(c.intermediate, c.hidden, bias=False)

    def forward(self, x, cos, sin, mask, cache):
        x = x + self.attention(self.attention_norm(x), cos, sin, mask, cache)
        return x + self.down(SwiGLU.apply(self.gate_up(self.mlp_norm(x))))


class LayerCache:
    """One layer's keys and values, of `batch` texts that grow together."""

    def __init__(self, c: Config, batch: int, capacity: int, device, dtype):
        shape = (batch * c.kv_heads, capacity, c.head_dim)
        self.k, self.v = (torch.zeros(shape, device=device, dtype=dtype) for _ in range(2))
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        end = self.length + k.shape[1]
        self.k[:, self.length : end] = k
        self.v[:, self.length : end] = v
        self.length = end
        return self.k[:, :end], self.v[:, :end]


class Llama(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.embedding = nn.Embedding(c.vocab, c.hidden)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = RMSNorm(c.hidden, c.eps)
        frequency = c.rope_theta ** -(torch.arange(0, c.head_dim, 2).float() / c.head_dim)
        angle = torch.outer(torch.arange(c.max_positions).float(), frequency)[:, None, :]
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / ((2 * c.layers) ** 0.5 if residual else 1))

    def hidden(self, ids: torch.Tensor, cache: list[LayerCache] | None = None) -> torch.Tensor:
        """The final normalised states; `ids` go on where the cache ends."""
        first, steps = cache[0].length if cache else 0, ids.shape[1]
        cos, sin = self.cos[first : first + steps], self.sin[first : first + steps]
        x, mask = self.embedding(ids), None
        if steps > 1 and (cache or not has_fused_attention(x)):
            mask = torch.full((steps, first + steps), float("-inf"), device=ids.device)
            mask = mask.triu(first + 1)
        for n, block in enumerate(self.blocks):
            x = block(x, cos, sin, mask, cache[n] if cache else None)
        return self.norm(x)

    def forward(self, ids: torch.Tensor, cache: list[LayerCache] | None = None) -> torch.Tensor:
        return F.linear(self.hidden(ids, cache), self.embedding.weight)

    def next_logits(self, ids: torch.Tensor, cache: list[LayerCache]) -> torch.Tensor:
        """The logits of the last position alone."""
        return F.linear(self.hidden(ids, cache)[:, -1], self.embedding.weight)

    def new_cache(self, batch: int, capacity: int) -> list[LayerCache]:
        weight = self.embedding.weight
        dtype = torch.bfloat16 if torch.is_autocast_enabled() else weight.dtype
        return [LayerCache(self.c, batch, capacity, weight.device, dtype) for _ in self.blocks]
