#!/usr/bin/env python3
"""torch_ddp.py - one rank of PyTorch's DistributedDataParallel on gloo, started as torchrun would.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=eth0 \\
        python torch_ddp.py CASE [--threads T] [--steps K] [--warmup W] [--bucket-cap-mb M]

The cases, a step and the figures are those of torch_cpu.py, which can start its ranks itself, but only on one
machine; here every rank is started by hand, so each can live in a network namespace of its own. A GAN has two
wrappers, as with MMEngine's MMSeparateDistributedDataParallel; broadcast_buffers is False, as there. Without
WORLD_SIZE, or with 1, the networks are bare: the time to compare with.

Rank 0 prints one JSON object: figures are the maximum over the ranks, losses rank 0's.
"""
import argparse
import functools
import json
import os

import torch_cpu
import torch
import torch.distributed as dist


def parse_args():
    p = argparse.ArgumentParser(description="One rank of a DDP training step on gloo.",
                                epilog="Example: RANK=0 WORLD_SIZE=1 torch_ddp.py mlp --steps 5")
    p.add_argument("case", choices=sorted(torch_cpu.CASES))
    p.add_argument("--threads", type=int, default=1, help="of this rank")
    p.add_argument("--steps", type=int, default=20, help="timed steps")
    p.add_argument("--warmup", type=int, default=3, help="untimed steps before")
    p.add_argument("--bucket-cap-mb", type=float, default=25, help="DDP's (25)")
    return p.parse_args()


def measure(given, rank, world):
    """This rank's figures."""
    args = torch_cpu.parse_args([given.case, "--ranks", str(world), "--threads", str(given.threads),
                                 "--steps", str(given.steps), "--warmup", str(given.warmup)])
    ddp = torch.nn.parallel.DistributedDataParallel
    torch.nn.parallel.DistributedDataParallel = functools.partial(ddp, bucket_cap_mb=given.bucket_cap_mb)
    return torch_cpu.measure(args, rank, torch_cpu.peak_rss_mib())


def main():
    args = parse_args()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    by_rank = [None] * world
    if world > 1:
        dist.init_process_group("gloo", rank=rank, world_size=world)
        dist.all_gather_object(by_rank, measure(args, rank, world))
    else:
        by_rank = [measure(args, rank, world)]
    if rank == 0:
        figures = torch_cpu.join(by_rank)
        out = {"case": args.case, "ranks": world, "threads": args.threads, "steps": args.steps,
               "bucket_cap_mb": args.bucket_cap_mb, "torch": torch.__version__}
        out.update({k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()})
        print(json.dumps(out), flush=True)
    if world > 1:
        dist.barrier()              # a rank that leaves early ends the other's connection, and that one aborts
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
