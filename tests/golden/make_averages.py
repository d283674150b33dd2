#!/usr/bin/env python3
"""make_averages.py - averages of parameters as PyTorch's AveragedModel keeps them, for tests/optimizer/test_averages.c.

    python tests/golden/make_averages.py       (writes tests/golden/averages.h and averages_norm.h)

Parameters a and b of N elements, from 0.5; the loss of step s is the sum of (a - x)^2 + (b - x)^2, with x as in `data`.
Each row of the test has: a after STEPS updates, and its average.

averages_norm.h: a BatchNorm1d of N channels over ROWS samples, whose output is pulled towards 1: its weight, mean and
variance, and their averages with use_buffers.
"""
import math
import re
from pathlib import Path

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn

HERE = Path(__file__).resolve().parent
N, STEPS, ROWS = 5, 6, 4


def exp_momentum_ema(momentum, gamma):
    """The avg_func of MMEngine's ExpMomentumEMA (mmengine/model/averaged_model.py)."""
    return lambda average, source, steps: torch.lerp(average, source, (1 - momentum) * math.exp(-float(1 + steps) / gamma) + momentum)


class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.full((N,), 0.5))
        self.b = torch.nn.Parameter(torch.full((N,), 0.5))


def data(step):
    return torch.tensor([((step * 3 + i * 5) % 7) / 3 - 1 for i in range(N)])


def row(expression, how):
    net = Pair()
    optimizer = eval(expression, globals(), {"p": net.parameters()})
    average = eval(f"AveragedModel(net, {how})", globals(), {"net": net})
    for step in range(STEPS):
        x = data(step)
        optimizer.zero_grad()
        sum(((p - x) ** 2).sum() for p in (net.a, net.b)).backward()
        optimizer.step()
        average.update_parameters(net)
    return net.a.tolist(), average.module.a.tolist()


def number(v):
    return f"{v:.9g}f" if "." in f"{v:.9g}" or "e" in f"{v:.9g}" else f"{v:.9g}.0f"


def norm(how):
    net = torch.nn.BatchNorm1d(N)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    average = AveragedModel(net, avg_fn=how, use_buffers=True)
    for step in range(STEPS):
        x = torch.tensor([[((step * 3 + r * 11 + i * 5) % 7) / 3 - 1 for i in range(N)] for r in range(ROWS)])
        optimizer.zero_grad()
        ((net(x) - 1) ** 2).mean().backward()
        optimizer.step()
        average.update_parameters(net)
    return [v.tolist() for m in (net, average.module) for v in (m.weight, m.running_mean, m.running_var)]


rows = re.findall(r'^    X\("(.*?)", "(.*?)", \{', (HERE.parent / "optimizer/test_averages.c").read_text(), re.M)
lines = ["/* made by make_averages.py */"]
for expression, ema in rows:
    lines.append(f"/* {expression} */")
    lines += ["{" + ", ".join("{" + ", ".join(map(number, values)) + "}" for values in row(expression, ema)) + "},"]
(HERE / "averages.h").write_text("\n".join(lines) + "\n")
lines = ["/* made by make_averages.py */"] + ["{" + ", ".join(map(number, v)) + "}," for v in norm(get_ema_avg_fn(0.9))]
(HERE / "averages_norm.h").write_text("\n".join(lines) + "\n")
