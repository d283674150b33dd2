"""data.py - the numbers that zoo_curve.c feeds, and those that Weft's graphs draw, for PyTorch."""
import re
import subprocess
import sys
from pathlib import Path

import numpy
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))
import philox  # noqa: E402: Weft's random numbers, from their definition

SEED = 7  # as in zoo_curve.c


def mix(x):
    with numpy.errstate(over="ignore"):
        x = x + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return x ^ (x >> numpy.uint64(31))


def uniform(name, step, n):
    key = 0
    for c in name.encode():
        key = (key * 31 + c) & philox.MASK
    base = mix(numpy.array([(key + step) & philox.MASK], dtype=numpy.uint64))
    with numpy.errstate(over="ignore"):
        drawn = mix(base + numpy.arange(n, dtype=numpy.uint64))
    return (drawn >> numpy.uint64(40)).astype(numpy.float64) * 2.0 ** -24


def wide(numbers):
    """Those of Weft, which are f32, in the type that the twin computes in."""
    return torch.from_numpy(numbers.astype(numpy.float32)).to(torch.get_default_dtype())


class Step:
    """The inputs of a step, and the random numbers of one of its graphs."""

    def __init__(self, step, graph, keys):
        self.step, self.graph, self.keys = step, graph, list(keys)

    def floats(self, name, *shape):
        return wide(2 * uniform(name, self.step, numpy.prod(shape)) - 1).reshape(shape)

    def integers(self, name, limit, *shape):
        return torch.from_numpy((limit * uniform(name, self.step, numpy.prod(shape))).astype(numpy.int64)).reshape(shape)

    def booleans(self, name, *shape):
        return torch.from_numpy(uniform(name, self.step, numpy.prod(shape)) < 0.8).reshape(shape)

    def words(self, n):
        """Of the graph's next random op, in the order of its text."""
        return philox.words(SEED, self.keys.pop(0), self.step, 0, n)

    def normal(self, *shape):
        n = int(numpy.prod(shape))
        return wide(philox.normal(self.words(n + n % 2), 0, 1)[:n]).reshape(shape)

    def random(self, *shape):
        n = int(numpy.prod(shape))
        return wide(philox.uniform(self.words(n), 0, 1)[:n]).reshape(shape)

    def dropout(self, x, p):
        """Elements whose word is below p 2^32 are dropped; those of images are numbered channels-last
        (ops/random/dropout.c)."""
        like = x.permute(0, 2, 3, 1) if x.dim() == 4 else x
        keep = torch.from_numpy(self.words(x.numel())[:x.numel()] >= numpy.uint64(p * 2.0 ** 32)).reshape(like.shape)
        keep = keep.permute(0, 3, 1, 2) if x.dim() == 4 else keep
        return torch.where(keep, x / (1 - p), torch.zeros_like(x))
