"""Several processes of one machine that train one model, each on batches of its own.

`python3 -m torch.distributed.run --nproc_per_node N -- SCRIPT` starts them; a script that is
started by itself is the only one. All hold the same weights at all times: gradients are averaged,
and the optimizer's costly part is shared out. They exchange values through a file in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.distributed as dist

RANK, COUNT = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def join() -> None:
    if COUNT > 1:
        dist.init_process_group("gloo")


class Board:
    """Memory with a place for every process's values. All call a function at the same time."""

    def __init__(self, size: int):
        """For lists of tensors with at most `size` values in all."""
        folder = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
        path = folder / f"training-{os.environ['MASTER_PORT']}-{size}"
        values = torch.from_file(str(path), shared=True, size=COUNT * size, dtype=torch.float32)
        self.values = values.view(COUNT, size)
        dist.barrier()  # all have opened it
        if RANK == 0:
            path.unlink()

    def _places(self, tensors: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, ...]]:
        at = 0
        for t in tensors:
            yield t, self.values[:, at : at + t.numel()].view(COUNT, *t.shape)
            at += t.numel()

    def average(self, tensors: Sequence[torch.Tensor]) -> None:
        """Gives everybody the mean of each tensor over the processes."""
        for t, place in self._places(tensors):
            place[RANK] = t
        dist.barrier()
        for t, place in self._places(tensors):
            t.copy_(place.mean(0))
        dist.barrier()

    def share(self, tensors: Sequence[torch.Tensor]) -> None:
        """Gives everybody the n-th tensor of the process for which it is_mine(n)."""
        for n, (t, place) in enumerate(self._places(tensors)):
            if is_mine(n):
                place[RANK] = t
        dist.barrier()
        for n, (t, place) in enumerate(self._places(tensors)):
            if not is_mine(n):
                t.copy_(place[n % COUNT])
        dist.barrier()


def is_mine(n: int) -> bool:
    """Whether this process computes the n-th of the values that all need."""
    return n % COUNT == RANK
