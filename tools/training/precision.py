"""In which type matrix products run: bfloat16 where the device is fast at it.

A processor without bfloat16 instructions emulates them, about sixty times as slow as float32.
"""

from __future__ import annotations

import functools
from pathlib import Path

import torch

FAST = {"avx512_bf16", "amx_bf16"}  # of the flags in /proc/cpuinfo


@functools.cache
def product_type(device: str) -> torch.dtype:
    """`device` is a name such as cpu or cuda:0."""
    if not device.startswith("cpu"):
        return torch.bfloat16
    cpu = Path("/proc/cpuinfo")
    text = cpu.read_text(encoding="ascii", errors="replace") if cpu.exists() else ""
    flags = set(text.split())
    return torch.bfloat16 if flags & FAST else torch.float32


def fast_products(device: str) -> torch.autocast:
    """A context in which products run in that type."""
    low = product_type(device)
    return torch.autocast(device.split(":")[0], torch.bfloat16, enabled=low is torch.bfloat16)
