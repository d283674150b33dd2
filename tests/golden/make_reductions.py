#!/usr/bin/env python3
"""make_reductions.py - PyTorch's answers for tests/pytorch/test_reductions.c: evaluates the text at the end of each of its rows, in f64.

    python tests/golden/make_reductions.py       (writes tests/golden/reductions.h)

A line is the row's text, the operand x, f32[2,3,4], and "f32[2,3] 1 2 ...|...": the result y; the gradient of the sum of y^2
by x; the gradient of the sum of that one's squares. The row says how many
gradients there are; a result that is not a float has none.
"""
import re
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
NAMES = {torch.float64: "f32", torch.int64: "i64", torch.bool: "bool"}
inf, nan = float("inf"), float("nan")
OPERANDS = {
    "plain": [0.7, -1.3, 2.1, 0.4, -0.6, 1.9, -2.2, 0.1, 1.1, 3.2, -0.9, 0.3, 1.7, 0.9, -1.6, 2.6, -0.2, 0.8, 1.4, -2.7, 0.6, -1.1, 2.3, -0.5],
    "ties": [1, 1, 2, 2, 0, 0, 0, 0, -1, 3, 3, 3, -2, -2, 5, 1, 2, 2, 2, 2, 4, -4, 4, -4],
    "zeros": [0, 2, 3, -1, 0, 0.5, 0, 2, 1.5, -2, 0.5, 3, 0, 0, 0, 0, -1, 2, 1, 0, 0.5, 0, 1, 2],
    "special": [nan, 1, 2, 3, inf, 1, -1, 2, -inf, 0, 1, 2, inf, -inf, 1, 2, -inf, -inf, -inf, -inf, inf, inf, nan, nan],
    "steep": [1e-18, 1e-18, 1e20, 1e20, -2e-18, 1e-18, 3e20, 1e20, 1e-17, 2e-18, 3e20, 2e19,
              1e-20, 1e-15, 2e20, 3e19, 0, 1e30, 1e-30, 1e30, 2, 3, 4, 5],
    "infinite": [inf, 1, 2, 3, inf, inf, -1, 2, -inf, 0, 1, 2, 5, -inf, 1, 2, -inf, -inf, -inf, -inf, -inf, -inf, -inf, 1],
}


def show(t):
    shape = ",".join(map(str, t.shape))
    return f"{NAMES[t.dtype]}[{shape}] " + " ".join(f"{v:.9g}" for v in t.detach().double().flatten().tolist())


def answer(order, operand, expression):
    x = torch.tensor(OPERANDS[operand], dtype=torch.float32).double().reshape(2, 3, 4).requires_grad_()
    values = [eval(expression)]
    while len(values) <= order and values[-1].requires_grad:
        values += torch.autograd.grad(values[-1].square().sum(), x, create_graph=True, materialize_grads=True)
    return "|".join(map(show, values))


rows = re.findall(r"^    X\((\d), (\w+), .*?, +\"(.*)\"\) *\\?$", (HERE.parent / "pytorch/test_reductions.c").read_text(), re.M)
lines = ["/* made by make_reductions.py */"]
for order, operand, row in rows:
    x = " ".join(f"{v:g}" for v in OPERANDS[operand])
    lines.append(f'{{"{row}", "{x}", "{answer(int(order), operand, row)}"}},')
(HERE / "reductions.h").write_text("\n".join(lines) + "\n")
