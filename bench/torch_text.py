#!/usr/bin/env python3
"""torch_text.py - the GPT of weft-zoo trained by PyTorch on the bytes of a text: what a training by graphtool is
compared with.

    python torch_text.py write START.safetensors [--layers 4 --d 128 --heads 4 --ctx 128 --seed S]
    python torch_text.py train START.safetensors TRAIN.txt VAL.txt [SIZES] [--batch 16 --epochs 1 --lr 1e-3 --warmup 100]

The rate rises over --warmup steps and falls by half a cosine to 0, as `graphtool train --schedule cosine,warmup=N`.
write makes initial weights with Weft's names, for `graphtool train --weights`. train begins with them. A sample is a
window of ctx bytes and the byte after each; windows do not overlap, their order is random in each epoch, and a last
smaller batch is left out, as in Weft. The last line is JSON: the mean loss of all windows of VAL.txt.
"""
import argparse
import json
import math
import time

import numpy as np
import torch
import torch.nn.functional as F

from torch_cpu import GPT
from torch_losses import read_safetensors, write_safetensors


def network(o):
    return GPT(vocab=256, ctx=o.ctx, layers=o.layers, d=o.d, heads=o.heads)


def windows(path, ctx):
    """inputs [n, ctx], and the targets after them"""
    text = torch.from_numpy(np.fromfile(path, np.uint8).astype(np.int64))
    n = (len(text) - 1) // ctx
    return text[:n * ctx].reshape(n, ctx), text[1:n * ctx + 1].reshape(n, ctx)


def loss_of(net, data, rows):
    return F.cross_entropy(net(data[0][rows]), data[1][rows].flatten())


@torch.no_grad()
def validate(net, data, batch):
    parts = [(loss_of(net, data, rows).item(), len(rows)) for rows in torch.arange(len(data[0])).split(batch)]
    return sum(loss * n for loss, n in parts) / len(data[0])


def factor(step, steps, warmup):
    """graphtool's `--schedule cosine,warmup=N`: linear, then half a cosine to 0."""
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2


def train(o):
    net = network(o)
    net.load_state_dict({name.removeprefix("gpt."): t for name, t in read_safetensors(o.start).items()})
    optimizer = torch.optim.AdamW(net.parameters(), lr=o.lr, weight_decay=0.1)
    data, other = windows(o.train, o.ctx), windows(o.val, o.ctx)
    steps = o.epochs * (len(data[0]) // o.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(step, steps, o.warmup))
    begin, step = time.time(), 0
    for epoch in range(o.epochs):
        for rows in torch.randperm(len(data[0])).split(o.batch):
            if len(rows) < o.batch:
                break
            optimizer.zero_grad()
            loss = loss_of(net, data, rows)
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % 200 == 0:
                print(f"epoch {epoch + 1}  step {step}  loss {loss.item():.4f}", flush=True)
    seconds = time.time() - begin
    print(json.dumps({"val_loss": validate(net, other, o.batch), "steps": step, "seconds": round(seconds, 1)}))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["write", "train"])
    p.add_argument("start")
    p.add_argument("train", nargs="?")
    p.add_argument("val", nargs="?")
    for name, value in (("layers", 4), ("d", 128), ("heads", 4), ("ctx", 128), ("batch", 16), ("epochs", 1),
                        ("seed", 1), ("warmup", 100), ("threads", torch.get_num_threads())):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--lr", type=float, default=1e-3)
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    if o.what == "write":
        write_safetensors(o.start, {f"gpt.{name}": t for name, t in network(o).state_dict().items()})
    elif o.val:
        train(o)
    else:
        p.error("train needs two texts")


if __name__ == "__main__":
    main()
