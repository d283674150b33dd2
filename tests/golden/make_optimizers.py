#!/usr/bin/env python3
"""make_optimizers.py - 100 steps of each row of tests/optimizer/test_optimizers.c in f64, by the text at its end: PyTorch's optimizers,
or the NumPy references below for those that PyTorch lacks, and for muon, which PyTorch computes in bf16.

    python tests/golden/make_optimizers.py       (writes tests/golden/optimizers.h)

A line is the parameter after one of POINTS steps; POINTS times PARTS lines a row.
"""
import math
import re
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
SHAPES = [(3, 2), (2, 3), (1, 6)]
POINTS = 1, 2, 5, 50, 100
torch.set_default_dtype(torch.float64)  # PyTorch keeps numbers of the state in it, as asgd's eta


class Reference:
    """A step at a time over p[0], a tensor with .grad, as torch.optim's."""

    def __init__(self, p, **settings):
        self.p, self.t, self.s = p[0], 0, {}
        self.__dict__.update(self.DEFAULTS | settings)

    def state(self, name):
        return self.s.setdefault(name, np.zeros(self.p.shape))

    def step(self):
        self.t += 1
        with torch.no_grad():
            self.p.copy_(torch.from_numpy(self.move(self.p.numpy().copy(), self.p.grad.numpy())))


class Lamb(Reference):
    """You et al., arXiv 1904.00962, algorithm 2, with phi(x) = x."""
    DEFAULTS = dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0)

    def move(self, p, g):
        self.s["m"] = self.beta1 * self.state("m") + (1 - self.beta1) * g
        self.s["v"] = self.beta2 * self.state("v") + (1 - self.beta2) * g * g
        m, v = self.s["m"] / (1 - self.beta1**self.t), self.s["v"] / (1 - self.beta2**self.t)
        d = m / (np.sqrt(v) + self.eps) + self.weight_decay * p
        a, b = np.linalg.norm(p), np.linalg.norm(d)
        return p - self.lr * (a / b if a and b else 1) * d


class Lars(Reference):
    """You et al., arXiv 1708.03888, algorithm 1."""
    DEFAULTS = dict(lr=1e-3, momentum=0, weight_decay=0, trust=1e-3, eps=1e-8)

    def move(self, p, g):
        a, b = np.linalg.norm(p), np.linalg.norm(g)
        rate = self.trust * a / (b + self.weight_decay * a + self.eps) if a and b else 1
        self.s["b"] = self.momentum * self.state("b") + rate * (g + self.weight_decay * p)
        return p - self.lr * self.s["b"]


class Lion(Reference):
    """Chen et al., arXiv 2302.06675, algorithm 2."""
    DEFAULTS = dict(lr=1e-4, beta1=0.9, beta2=0.99, weight_decay=0)

    def move(self, p, g):
        c = self.beta1 * self.state("m") + (1 - self.beta1) * g
        self.s["m"] = self.beta2 * self.state("m") + (1 - self.beta2) * g
        return p - self.lr * (np.sign(c) + self.weight_decay * p)


class Muon(Reference):
    """torch.optim.Muon in f64, with nesterov and the default adjustment of lr."""
    DEFAULTS = dict(lr=1e-3, momentum=0.95, weight_decay=0.1, eps=1e-7)

    def move(self, p, g):
        b = self.s["b"] = self.state("b") + (1 - self.momentum) * (g - self.state("b"))
        x = g + self.momentum * (b - g)
        x = x.T if p.shape[0] > p.shape[1] else x
        x = x / max(np.linalg.norm(x), self.eps)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        x = x.T if p.shape[0] > p.shape[1] else x
        return p * (1 - self.lr * self.weight_decay) - self.lr * math.sqrt(max(1, p.shape[0] / p.shape[1])) * x


def start(part):
    return [0.5 * (i + 1) * (-1 if i % 2 else 1) / (part + 1) for i in range(6)]


def slope(part, i, step, p):
    return (0.2 + 0.3 * i) * (p - 0.1 * part) + 0.4 * math.sin(0.7 * step * (i + 1) + part)


def curve(expression, part):
    shape = SHAPES[part] if part < 2 or "Muon" in expression else (6,)  # a line, except for muon
    x = torch.tensor(start(part), dtype=torch.float64).reshape(shape).requires_grad_()
    optimizer, found = eval(expression, globals(), {"p": [x]}), []
    for t in range(1, POINTS[-1] + 1):
        before = x.detach().flatten().tolist()
        x.grad = torch.tensor([slope(part, i, t, v) for i, v in enumerate(before)], dtype=torch.float64).reshape(shape)
        optimizer.step()
        if t in POINTS:
            found.append(x.detach().flatten().tolist())
    return found


rows = re.findall(r'^    X\("(\w+)", ".*?", "(.*?)", \{', (HERE.parent / "optimizer/test_optimizers.c").read_text(), re.M)
lines = ["/* made by make_optimizers.py */"]
for name, expression in rows:
    curves = [curve(expression, part) for part in range(len(SHAPES))]
    lines.append(f"/* {expression} */ {{")
    for k in range(len(POINTS)):
        lines.append("{" + ",\n".join("{" + ", ".join(f"{v:.17g}" for v in c[k]) + "}" for c in curves) + "},")
    lines.append("},")
(HERE / "optimizers.h").write_text("\n".join(lines) + "\n")
