#!/usr/bin/env python3
"""make_freezing.py - parameters that train in some updates only, for tests/optimizer/test_freezing.c: PyTorch's optimizers, where b.grad
is None outside of updates [FROM, TO).

    python tests/golden/make_freezing.py       (writes tests/golden/freezing.h)

a and b have N elements, from 0.5; the loss of step s is the sum of (a - x)^2 + (b - x)^2 / 2, with x as in `data`. A row of the
test has the optimizer; the norm to which gradients are clipped (0: none); a factor on beta1 at each step. Each row has: a and b
after STEPS updates.
"""
import re
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
N, STEPS, FROM, TO = 5, 8, 2, 6
torch.set_default_dtype(torch.float64)


def data(step):
    return torch.tensor([((step * 3 + i * 5) % 7) / 3 - 1 for i in range(N)])


def row(expression, norm, gamma, freezes):
    a, b = (torch.full((N,), 0.5, requires_grad=True) for _ in range(2))
    optimizer = eval(expression, globals(), {"p": [a, b]})
    beta1 = optimizer.param_groups[0].get("betas", (0,))[0]
    for step in range(STEPS):
        x = data(step)
        optimizer.zero_grad(set_to_none=True)
        (((a - x) ** 2).sum() + ((b - x) ** 2).sum() / 2).backward()
        if freezes and not FROM <= step < TO:
            b.grad = None
        if norm:
            torch.nn.utils.clip_grad_norm_([a, b], norm)
        if gamma:
            optimizer.param_groups[0]["betas"] = (beta1 * gamma**step, 0.999)
        optimizer.step()
    return a.tolist(), b.tolist()


rows = re.findall(r'^    X\("(.*?)", (\S+), (\S+), (\S+), \{', (HERE.parent / "optimizer/test_freezing.c").read_text(), re.M)
lines = ["/* made by make_freezing.py */"]
for expression, norm, gamma, freezes in rows:
    lines.append(f"/* {expression} */")
    parts = row(expression, float(norm), float(gamma), freezes == "true")
    lines.append("{" + ", ".join("{" + ", ".join(f"{v:.17g}" for v in values) + "}" for values in parts) + "},")
(HERE / "freezing.h").write_text("\n".join(lines) + "\n")
