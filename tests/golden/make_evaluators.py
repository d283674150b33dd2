#!/usr/bin/env python3
"""make_evaluators.py - the numbers of tests/train/test_evaluators.c by PyTorch, in f64, and sums by math.fsum.

    python tests/golden/make_evaluators.py       (writes tests/golden/evaluators.h)

SCORES f32[23,5] with ties, LABELS; PIXELS f32[23,4,3] and MASKS [23,3]; two images f32[23,2,3]; then a row for each number.
"""
import math
import random
from pathlib import Path

import torch
import torch.nn.functional as F

torch.manual_seed(3)
random.seed(3)
N, C = 23, 5
scores = (torch.randn(N, C) * 2).round(decimals=1)
labels = torch.randint(0, C - 1, (N,))  # class 4 is never a label
labels[[3, 11]] = -100
pixels = torch.randn(N, 4, 3)
masks = torch.randint(0, 4, (N, 3))
masks[:, 1] = torch.where(masks[:, 1] == 2, -100, masks[:, 1])
image = torch.rand(N, 2, 3)
target = torch.rand(N, 2, 3)


def hits(scores, labels, k):
    """Of equal scores the first is higher: a stable descending sort."""
    counts = labels >= 0
    best = scores.double().sort(dim=1, descending=True, stable=True).indices[:, :k]
    return (best == labels.unsqueeze(1)).any(1)[counts].double().mean().item()


def confusion(scores, labels, classes):
    counts = labels >= 0
    given = scores.sort(dim=1, descending=True, stable=True).indices[:, 0][counts]
    matrix = torch.zeros(classes, classes, dtype=torch.int64)
    for t, p in zip(labels[counts].flatten().tolist(), given.flatten().tolist()):
        matrix[t, p] += 1
    m = matrix.double()
    tp, given, real = m.diag(), m.sum(0), m.sum(1)
    occurs = given + real > 0
    mean = lambda x: torch.nan_to_num(x)[occurs].mean().item()
    return matrix, [(tp.sum() / m.sum()).item(), mean(tp / given), mean(tp / real), mean(2 * tp / (given + real)), mean(tp / (given + real - tp))]


def perplexity(scores, labels):
    return F.cross_entropy(scores.double(), labels, ignore_index=-100).exp().item()


error = (image.double() - target.double()).square()
matrix, of_scores = confusion(scores, labels, C)
_, of_pixels = confusion(pixels, masks, 4)
wide = [random.uniform(-1, 1) * 10.0 ** random.randint(-300, 300) for _ in range(200)]
wide += [-x for x in wide] + [random.gauss(0, 1) for _ in range(50)] + [5e-324, 2.5e-310, -1e-320] * 7
random.shuffle(wide)
numbers = {
    "ACCURACY": hits(scores, labels, 1), "ACCURACY_TOP3": hits(scores, labels, 3), "ACCURACY_PIXELS": hits(pixels, masks, 1),
    "PERPLEXITY": perplexity(scores, labels), "PERPLEXITY_PIXELS": perplexity(pixels, masks),
    "PERPLEXITY_OF_LOSSES": math.exp(image.double().mean().item()), "MEAN": image.double().mean().item(), "MSE": error.mean().item(),
    "PSNR": (10 * torch.log10(4 / error.flatten(1).mean(1))).mean().item(), "WIDE_SUM": math.fsum(wide),
}


def array(kind, name, values):
    texts = [v.hex() if isinstance(v, float) else str(v) for v in values]
    body = ", ".join(texts)
    return f"static const {kind} {name}[] = {{{body}}};"


lines = ["/* made by make_evaluators.py */", "#include <stdint.h>"]
for kind, name, t in [("float", "SCORES", scores), ("int32_t", "LABELS", labels), ("float", "PIXELS", pixels), ("int32_t", "MASKS", masks),
                      ("float", "IMAGE", image), ("float", "TARGET", target), ("int64_t", "MATRIX", matrix)]:
    lines.append(array(kind, name, t.flatten().tolist()))
lines.append(array("double", "OF_SCORES", of_scores))
lines.append(array("double", "OF_PIXELS", of_pixels))
lines.append(array("double", "WIDE", wide))
lines += [f"static const double {name} = {value.hex()};" for name, value in numbers.items()]
(Path(__file__).resolve().parent / "evaluators.h").write_text("\n".join(lines) + "\n")
