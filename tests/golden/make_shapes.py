#!/usr/bin/env python3
"""make_shapes.py - PyTorch's answers for tests/pytorch/test_shapes.c and tests/pytorch/test_images.c: evaluates the second text of each of
their rows.

    python tests/golden/make_shapes.py       (writes tests/golden/shapes.h and images.h)

A line is the row's text and "f32[2,3]: 1 2 ... | f32[2,3,4]: ...": the result and, where it is f32, the gradient of the sum of
its squares by x. In shapes.h x is 1, 2, 3, ... as f32[2,3,4]. In images.h x is f32[2,2,4,5] of numbers between -5 and 6, the
weights that rows name w are made by weights(), and the gradient of the sum of the squares of the first gradient follows.
"""
import re
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: F401, rows use it

HERE = Path(__file__).resolve().parent
NAMES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.int32: "i32", torch.bool: "bool"}


def ids(shape, m):
    return (7 * torch.arange(torch.Size(shape).numel()) % m).reshape(shape)
P = torch.arange(-5.0, 7).reshape(3, 4)  # other operands of einsum in shapes.h
Q = torch.arange(-9.0, 11).reshape(4, 5)


def mixed(x):
    return 7 * x % 25


def numbers(t, digits):
    shape = ",".join(map(str, t.shape))
    list = " ".join(f"{v:.{digits}g}" for v in t.detach().double().flatten().tolist())
    return f"{NAMES[t.dtype].replace('f64', 'f32') if digits > 6 else NAMES[t.dtype]}[{shape}]: {list}"


def gradient(y, x, again):
    loss = (y * y).sum()
    if not loss.requires_grad:
        return torch.zeros_like(x)
    return torch.autograd.grad(loss, x, create_graph=again, allow_unused=True, materialize_grads=True)[0]


def shape_answer(expression):
    x = torch.arange(1.0, 25).reshape(2, 3, 4).requires_grad_()
    y = eval(expression)
    return numbers(y, 6) + (" | " + numbers(gradient(y, x, False), 6) if y.dtype == torch.float32 else "")


def weights(*shape):
    return (torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * 11 % 17 / 8 - 1).reshape(shape)


def image_answer(expression):
    """In f64, written as f32 is."""
    x = (torch.arange(80.0, dtype=torch.float64) * 37 % 163 / 16 - 4.5).reshape(2, 2, 4, 5).requires_grad_()
    y = eval(expression, globals(), {"x": x, "w": weights})
    dx = gradient(y, x, True)
    return " | ".join(numbers(t, 7) for t in (y, dx, gradient(dx, x, False)))


for name, answer in {"shapes": shape_answer, "images": image_answer}.items():
    source = (HERE.parent / f"pytorch/test_{name}.c").read_text()
    rows = re.findall(r"^    X\([012], .*?,[\s\\]+\"([^\n\"]*)\"\) *\\?$", source, re.M | re.S)
    lines = ["/* made by make_shapes.py */"] + [f'{{"{row}", "{answer(row)}"}},' for row in rows]
    (HERE / f"{name}.h").write_text("\n".join(lines) + "\n")
