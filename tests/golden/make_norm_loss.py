#!/usr/bin/env python3
"""make_norm_loss.py - PyTorch's answers for tests/pytorch/test_norm_loss.c: evaluates the second text of each of its rows in f64.

    python tests/golden/make_norm_loss.py       (writes tests/golden/norm_loss.h)

The operands are those of the test (`operand` here and there). A line is the row's text and sections "NAME numbers": y; the
gradients of the sum of y^2 by the operands x, t, w, b that it depends on; and those of the sum of the squares of all these
gradients, as x2, t2, w2, b2.
"""
import re
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: F401, rows use it
from torch.autograd import grad

HERE = Path(__file__).resolve().parent


def operand(salt, *shape):
    n = torch.Size(shape).numel()
    return torch.tensor([((i * 37 + salt * 29 + 11) % 101) / 50 - 1 for i in range(n)], dtype=torch.float64).reshape(shape)


def batch_norm(x, w, b):
    return F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5)


def composed(x, w, b, axis):
    """batch_norm (axis 0) and layer_norm (-1) of smaller functions: F.batch_norm has no third derivatives, and those of
    F.layer_norm are wrong (2.15 takes its mean and rstd as constants there)."""
    centered = x - x.mean(axis, keepdim=True)
    return centered * (centered.square().mean(axis, keepdim=True) + 1e-5).rsqrt() * w + b


def penalty(critic, x):
    """(|d critic / dx| - 1)^2 of each image, a third derivative's start."""
    g = grad(critic(x).sum(), x, create_graph=True)[0]
    return (g.flatten(1).norm(dim=1) - 1) ** 2


def through(norm, x, t, w, b):
    """A critic: a layer, a norm, tanh."""
    return torch.tanh(norm(x @ t.transpose(1, 2), w, b))


# The names of helpers of the test.
part, sides = torch.sigmoid, torch.sign


def fixed(v):
    return v.detach()


def rows_of(x):
    return x.mT.reshape(-1, 4)


def first_of(t):
    return t[:, :, :1]


def outer(x, t):
    return x[:, :, :, None] * t[:, :, None]


def wide_ids(ids):
    return ids[:, :, None].expand(-1, 3, 3)


def column(w):
    return w[:, None]


def sides_of_rows(t):
    return torch.sign(rows_of(t))[:, 0]


def twelve(w, b):
    return torch.cat([w, b, w * b])


def steps(of, states, reverse, times, weight, bias=None):
    """A recurrent layer without a product with its input, batch first."""
    weights = [torch.eye(len(weight)).double(), weight] + ([] if bias is None else [torch.zeros(len(weight)).double(), bias])
    times = times.flip(0) if reverse else times
    y, *last = of(times, states, weights, bias is not None, 1, 0.0, False, False, False)
    y = y.flip(0) if reverse else y
    return torch.cat([y] + last[1:]).transpose(0, 1)


def lstm(x, t, w, b, reverse=False):
    times, weight = torch.stack([x.flatten(1), t.flatten(1)]), twelve(w, b)[:, None] * b[:3]
    return steps(torch.lstm, [x[None, :, 0], t[None, :, 1]], reverse, times, weight)


def gru(x, t, w, b, reverse=False):
    times, weight = torch.stack([x.flatten(1), t.flatten(1)]), twelve(w, b)[:, None] * w
    return steps(torch.gru, x[None, :, :, 0], reverse, times, weight, twelve(b, w))


def rnn(of, x, t, w, b, reverse=False):
    return steps(of, t[None, :, 2], reverse, x.transpose(0, 1), w[:3, None] * b[:3])


def gradients(values, by):
    """Of the sum of all squares; None where it does not depend on an operand."""
    loss = sum((v * v).sum() for v in values if v is not None)
    if not torch.is_tensor(loss) or not loss.requires_grad:
        return [None] * len(by)
    return grad(loss, by, create_graph=True, allow_unused=True)


def show(name, t):
    return name + " " + " ".join(f"{v:.12g}" for v in t.detach().flatten().tolist())


def answer(expression):
    x, t, w, b = by = [operand(1, 2, 4, 3), operand(2, 2, 4, 3), operand(3, 4), operand(4, 4)]
    ids = torch.tensor([(5 * i + i // 4) % 4 for i in range(6)]).reshape(2, 3)
    for v in by:
        v.requires_grad_()
    y = eval(expression, dict(globals(), x=x, t=t, w=w, b=b, ids=ids))
    first = gradients([y], by)
    second = gradients(first, by)
    parts = [show("y", y)] + [show(n, g) for n, g in zip("xtwb", first) if g is not None]
    return "|".join(parts + [show(n + "2", g) for n, g in zip("xtwb", second) if g is not None])


def layer_of(kind):
    """A layer whose weight is computed, in f64, with the numbers of the test."""
    wrap = torch.nn.utils.parametrizations
    layer = {"linear": torch.nn.Linear(3, 4), "conv": torch.nn.Conv2d(2, 4, 3), "up": torch.nn.ConvTranspose2d(2, 3, 2)}[
        kind.split()[0]].double()
    layer = (wrap.spectral_norm if "spectral" in kind else wrap.weight_norm)(layer)
    state = layer.state_dict()
    for k, name in enumerate(sorted(state)):
        v = operand(k + 5, *state[name].shape)
        state[name] = F.normalize(v, dim=0) if name.endswith(("_u", "_v")) else v
    layer.load_state_dict(state)
    return layer


def parametrized(kind):
    """Two training steps, then eval: results, gradients of the sum of squares by the parameters, and the state."""
    layer = layer_of(kind)
    x = operand(1, 2, 3) if kind.startswith("linear") else operand(1, 2, 2, 4, 4)
    parts = []
    for step in "1", "2":
        y = layer(x)
        names, values = zip(*sorted(layer.named_parameters()))
        parts += [show("y" + step, y)] + [show("g%d" % k, v) for k, v in enumerate(grad((y * y).sum(), values)) if step == "2"]
    parts += [show("s%d" % k, v) for k, (_, v) in enumerate(sorted(layer.named_buffers()))]
    parts.append(show("e", layer.eval()(x)))
    return "|".join(parts)


KINDS = "linear spectral", "conv spectral", "up spectral", "linear weight", "conv weight", "up weight"
(HERE / "weight_norms.h").write_text("/* made by make_norm_loss.py */\n" + "".join(
    f'{{"{kind}", "{parametrized(kind)}"}},\n' for kind in KINDS))
rows = re.findall(r"^    X\([01], .*?, *\"(.*)\"\) *\\?$", (HERE.parent / "pytorch/test_norm_loss.c").read_text(), re.M)
lines = ["/* made by make_norm_loss.py */"] + [f'{{"{row}", "{answer(row)}"}},' for row in rows]
(HERE / "norm_loss.h").write_text("\n".join(lines) + "\n")
