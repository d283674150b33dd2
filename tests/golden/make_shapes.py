#!/usr/bin/env python3
"""make_shapes.py - PyTorch's answers for tests/test_shapes.c: evaluates the second text of each of its rows.

    python tests/golden/make_shapes.py       (writes tests/golden/shapes.h)

x is 1, 2, 3, ... as f32[2,3,4]. A line is the row's text and "f32[2,3]: 1 2 ... | f32[2,3,4]: ...": the result and, where it is
f32, the gradient of the sum of its squares by x.
"""
import re
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: F401, rows use it

HERE = Path(__file__).resolve().parent
NAMES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.int32: "i32", torch.bool: "bool"}


def show(t):
    shape = ",".join(map(str, t.shape))
    return f"{NAMES[t.dtype]}[{shape}]: " + " ".join(f"{v:.6g}" for v in t.detach().double().flatten().tolist())


def answer(expression):
    x = torch.arange(1.0, 25).reshape(2, 3, 4).requires_grad_()
    y = eval(expression)
    if y.dtype != torch.float32:
        return show(y)
    loss = (y * y).sum()
    grad = torch.autograd.grad(loss, x)[0] if loss.requires_grad else torch.zeros_like(x)
    return show(y) + " | " + show(grad)


rows = re.findall(r"^    X\([01], .*?, +\"(.*)\"\) *\\?$", (HERE.parent / "test_shapes.c").read_text(), re.M)
lines = ["/* made by make_shapes.py */"] + [f'{{"{row}", "{answer(row)}"}},' for row in rows]
(HERE / "shapes.h").write_text("\n".join(lines) + "\n")
