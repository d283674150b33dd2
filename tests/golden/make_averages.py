#!/usr/bin/env python3
"""make_averages.py - averages of parameters as PyTorch's AveragedModel keeps them, for tests/test_averages.c.

    python tests/golden/make_averages.py       (writes tests/golden/averages.h)

Parameters a and b of N elements, from 0.5; the loss of step s is the sum of (a - x)^2 + (b - x)^2, with x as in `data`.
Of each row of the test: a after STEPS updates, and its average.
"""
import re
from pathlib import Path

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

HERE = Path(__file__).resolve().parent
N, STEPS = 5, 6


class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.full((N,), 0.5))
        self.b = torch.nn.Parameter(torch.full((N,), 0.5))


def data(step):
    return torch.tensor([((step * 3 + i * 5) % 7) / 3 - 1 for i in range(N)])


def row(expression, ema):
    net = Pair()
    optimizer = eval(expression, globals(), {"p": net.parameters()})
    average = AveragedModel(net, avg_fn=get_ema_avg_fn(ema))
    for step in range(STEPS):
        x = data(step)
        optimizer.zero_grad()
        sum(((p - x) ** 2).sum() for p in (net.a, net.b)).backward()
        optimizer.step()
        average.update_parameters(net)
    return net.a.tolist(), average.module.a.tolist()


rows = re.findall(r'^    X\("(.*?)", (\S+), \{', (HERE.parent / "test_averages.c").read_text(), re.M)
lines = ["/* made by make_averages.py */"]
for expression, ema in rows:
    lines.append(f"/* {expression} */")
    lines += ["{" + ", ".join("{" + ", ".join(f"{v:.9g}f" if "." in f"{v:.9g}" else f"{v:.9g}.0f" for v in values) + "}"
                              for values in row(expression, float(ema))) + "},"]
(HERE / "averages.h").write_text("\n".join(lines) + "\n")
