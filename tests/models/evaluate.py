"""evaluate.py - what PyTorch makes of a case, in f64 on the CPU: outputs of every micro-batch, variables after every step.

Each op is computed by torch's own function on contiguous operands (its CPU batch_norm has given wrong gradients for
channels-last ones), gradients by torch.autograd, updates by torch.optim. How far results may be off is measured: the same
case in f32 with data and every result disturbed in the last bits. See bounds().
"""

import copy
import math
import threading

import torch
import torch.nn.functional as F

import philox
from contents import results
from generate import matches

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool]


def window(i):
    return dict(stride=(i[0], i[1]), padding=(i[2], i[3]), dilation=(i[4], i[5]), groups=i[6])


def pool(i, name):
    """Older cases have six numbers."""
    d0, d1, ceil, exclude, divisor = i[6:] or (1, 1, 0, 0, 0)
    both = dict(kernel_size=(i[0], i[1]), stride=(i[2], i[3]), padding=(i[4], i[5]), ceil_mode=bool(ceil))
    if name == "max":
        return dict(both, dilation=(d0, d1))
    return dict(both, count_include_pad=not exclude, divisor_override=divisor or None)


def reduced(f, x, i):
    axes = i[1:] or list(range(x.dim()))
    return f(x, dim=axes, keepdim=bool(i[0])) if axes else f(x.reshape(1), dim=[0])


def spread(f, x, i, correction):
    """torch.var and torch.std, of x minus its first element: of a constant x torch's own are often a rounding, and std's
    gradient then of the order of 1."""
    first = x.detach()
    for axis in i[1:] or range(x.dim()):
        first = first.narrow(axis, 0, 1)
    return reduced(lambda x, **how: f(x, correction=correction, **how), x - first, i)


def product(x, i):
    """torch.prod takes one axis."""
    axes = [a % x.dim() for a in i[1:]] or list(range(x.dim()))
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=bool(i[0]))
    return x * 1


def sliced(x, i):
    axis = i[0] % x.dim()
    begin = i[1] + x.shape[axis] if i[1] < 0 else i[1]
    return x.narrow(axis, begin, min(i[2], x.shape[axis]) - begin)


def padded(x, i):
    axis = i[0] % x.dim()
    return F.pad(x, [0, 0] * (x.dim() - 1 - axis) + [i[1], i[2]])


def softmax(s):
    return s.softmax(-1)


def attention(q, k, v, i, r, step=lambda x: x, softmax=softmax):
    scale = r[0] or 1 / math.sqrt(q.shape[-1])
    s = step(q @ k.transpose(-1, -2) * scale)
    if i[0]:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    return step(softmax(s)) @ v


def transposed(x, a, b):
    return x.transpose(a, b)


def matrix(x, flag):
    return x.transpose(-1, -2) if flag else x


def interpolate(x, i, r):
    n = x.dim() - 2
    kw = dict(size=tuple(i[:n]) if i[0] else None, scale_factor=None if i[0] else tuple(r[:n]))
    mode = ["nearest", "nearest-exact", "bilinear" if n == 2 else "linear", "bicubic"][i[2]]
    return F.interpolate(x, mode=mode, align_corners=bool(i[3]) if i[2] >= 2 else None, antialias=bool(i[4:] and i[4]), **kw)


def interpolate3d(x, i):
    mode = ["nearest", "nearest-exact", "trilinear"][i[3]]
    return F.interpolate(x, tuple(i[:3]), mode=mode, align_corners=bool(i[4]) if i[3] == 2 else None)


def grid_sample(x, grid, i):
    mode, padding = ["bilinear", "nearest", "bicubic"][i[0]], ["zeros", "border", "reflection"][i[1]]
    return F.grid_sample(x, grid, mode, padding, bool(i[2]))


def sliding(i):
    return dict(kernel_size=(i[9], i[10]), stride=(i[0], i[1]), padding=(i[2], i[3]), dilation=(i[4], i[5]))


def line(i):
    """conv1d and its like have the first number of each pair."""
    return dict(stride=i[0], padding=i[2], dilation=i[4], groups=i[6])


def pool_line(i, name):
    both = dict(kernel_size=i[0], stride=i[2], padding=i[4], ceil_mode=bool(i[8]))
    return dict(both, dilation=i[6] or 1) if name == "max" else dict(both, count_include_pad=not i[9])


def volume(i):
    return dict(stride=i[0:3], padding=i[3:6], dilation=i[6:9], groups=i[12])


def pool_volume(i, name):
    both = dict(kernel_size=i[0:3], stride=i[3:6], padding=i[6:9], ceil_mode=bool(i[12]))
    if name == "max":
        return dict(both, dilation=i[9:12])
    return dict(both, count_include_pad=not i[13], divisor_override=i[14] or None)


def normalize(x, axes, eps):
    """Not F.layer_norm and F.batch_norm: the third derivatives of one are wrong (in 2.15), those of the other missing."""
    centered = x - x.mean(axes, keepdim=True)
    return centered * torch.rsqrt(centered.square().mean(axes, keepdim=True) + eps)


def batch_norm_eval(x, mean, var, w, b, eps):
    along = [-1] + [1] * (x.dim() - 2)
    y = (x - mean.reshape(along)) * torch.rsqrt(var + eps).reshape(along)
    return y if w is None else y * w.reshape(along) + b.reshape(along)


REDUCTIONS = ["mean", "sum", "none", "batchmean"]


def loss(f, *names):
    """torch's own loss; the options of the call, by PyTorch's names."""
    def compute(x, o, r):
        how = {k: v for k, v in o.items() if k in ("beta", "delta", "margin", "p", "swap", "log_target", "label_smoothing")}
        rest = {name: t for name, t in zip(names, x[len(x) - len(names):])} if names else {}
        return f(*x[:len(x) - len(names)], **rest, reduction=REDUCTIONS[o["reduction"]], **how)
    return compute


def lost(x, o):
    return x if o["reduction"] == 2 else x.sum() if o["reduction"] == 1 else x.mean()


class composed:
    """In plain arithmetic where torch's own function has no gradient by some operand, or no second one. Its values in f64 are
    torch's."""

    def __init__(self, theirs, ours):
        self.theirs, self.ours = theirs, ours

    def __call__(self, x, i, r):
        return self.ours(x, i, r)

    @torch.no_grad()
    def check(self, y, x, i, r):
        if torch.isfinite(y).all():
            same = self.theirs(x, i, r)
            assert y.shape == same.shape and torch.allclose(y, same, 1e-9, 1e-9), (y, same, x, i)


def of_classes(logs, x, o):
    """Logs of probabilities, integer targets, and the classes' weights."""
    logs, t, s = logs.movedim(1, -1), x[1], o.get("label_smoothing", 0)
    w = torch.ones(logs.shape[-1], dtype=logs.dtype) if x[2] is None else x[2]
    counts = (t != o.get("ignore_index", -100)).to(logs.dtype)
    own = -(logs * w).gather(-1, t.unsqueeze(-1)).squeeze(-1)
    each = ((1 - s) * own - s / logs.shape[-1] * (logs * w).sum(-1)) * counts
    return each if o["reduction"] == 2 else each.sum() if o["reduction"] == 1 else each.sum() / (w[t] * counts).sum()


def class_loss(f):
    def compute(x, o, r):
        how = {k: o[k] for k in ("ignore_index", "label_smoothing") if k in o}
        return f(x[0], x[1], weight=x[2], reduction=REDUCTIONS[o["reduction"]], **how)
    return compute


def bce(x, o, r):
    w = 1 if x[2] is None else x[2]
    return lost(-(x[1] * x[0].log() + (1 - x[1]) * (1 - x[0]).log()) * w, o)


def bce_with_logits(x, o, r):
    w, p = 1 if x[2] is None else x[2], 1 if x[3] is None else x[3]
    return lost(w * ((1 - x[1]) * x[0] - (1 + (p - 1) * x[1]) * F.logsigmoid(x[0])), o)


# ---- attention ----

def seen_by(o, t, s):
    """Which key a row sees, mask left aside: True where it does."""
    row, key = torch.arange(t)[:, None] + o.get("offset", 0), torch.arange(s)
    seen = torch.ones(t, s, dtype=torch.bool)
    if o.get("causal") or (o.get("window") and not o.get("ahead")):
        seen = key <= row
    if o.get("ahead"):
        seen = seen & (key < row + o["ahead"])
    return seen & (key > row - o["window"]) if o.get("window") else seen


def attention_mask(x, o):
    """PyTorch takes one mask: bools, or numbers."""
    seen = seen_by(o, x[0].shape[-2], x[1].shape[-2])
    if x[3] is None or x[3].dtype == torch.bool:
        return seen if x[3] is None else seen & x[3]
    return torch.where(seen, x[3], torch.tensor(-math.inf, dtype=x[3].dtype))


def attention_torch(x, o, r):
    if o.get("softcap"):
        return attention_with(x, o)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(*x[:3], attention_mask(x, o), scale=o.get("scale"),
                                              enable_gqa=x[0].shape[1] != x[1].shape[1])


def attention_with(x, o, keep=1, step=lambda x: x, softmax=softmax):
    """A row that sees nothing gives 0."""
    k, v = (t.repeat_interleave(x[0].shape[1] // t.shape[1], 1) for t in x[1:3])
    s = step(x[0] @ k.transpose(-1, -2) * o.get("scale", 1 / math.sqrt(x[0].shape[-1])))
    mask = attention_mask(x, o)
    if o.get("softcap"):
        s = step(o["softcap"] * torch.tanh(s / o["softcap"]))
    s = torch.where(mask, s, -1e30) if mask.dtype == torch.bool else step(s + mask)
    p = step(softmax(s)) * keep
    return (p if mask.dtype != torch.bool else p * mask.any(-1, keepdim=True)) @ v


def rotary(x, o, r):
    """As LLaMA's and GPT-J's code has it; torch has no function of this name."""
    n, x = o.get("dims") or x[0].shape[-1], x[0]
    angle = (o.get("offset", 0) + torch.arange(x.shape[-2], dtype=x.dtype))[:, None] * o["base"] ** (
        -torch.arange(0, n, 2, dtype=x.dtype) / n)
    head, is_paired = x[..., :n], o.get("interleaved")
    a, b = (head[..., ::2], head[..., 1::2]) if is_paired else head.chunk(2, -1)
    turned = [a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()]
    head = torch.stack(turned, -1).flatten(-2) if is_paired else torch.cat(turned, -1)
    return torch.cat([head, x[..., n:]], -1)


SCATTERS = "sum prod mean amax amin".split()


def indices(axes, ids):
    """aten's indices: ids for these axes."""
    return [ids[axes.index(k)] if k in axes else None for k in range(axes[-1] + 1)]


def channel_norm(x, groups, eps):
    y = normalize(x[0].reshape(x[0].shape[0], groups, -1), [-1], eps).reshape(x[0].shape)
    shape = [1, -1] + [1] * (y.dim() - 2)
    return y if x[1] is None else y * x[1].reshape(shape) + x[2].reshape(shape)


def recurrent(op, x, w, h, extra, reverse, which=0):
    """The steps of a layer (ops/recurrent), in plain arithmetic."""
    n, out = w.shape[1], [None] * x.shape[0]
    h = x.new_zeros(x.shape[1], n) if h is None else h
    c = (x.new_zeros(x.shape[1], n) if extra is None else extra) if op == "lstm" else None
    for t in range(x.shape[0] - 1, -1, -1) if reverse else range(x.shape[0]):
        of_h = h @ w.T + (extra if op == "gru" and extra is not None else 0)
        if op == "rnn":
            h = (x[t] + of_h).relu() if which else (x[t] + of_h).tanh()
        elif op == "gru":
            r, z = (x[t] + of_h)[:, :n].sigmoid(), (x[t] + of_h)[:, n:2 * n].sigmoid()
            h = (1 - z) * (x[t, :, 2 * n:] + r * of_h[:, 2 * n:]).tanh() + z * h
        else:
            i, f, g, o = (x[t] + of_h).split(n, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        out[t] = [h, c, h + c][which] if op == "lstm" else h
    return torch.stack(out)


def own_axes(x):
    """The lengths of the axes that a norm with this weight is of."""
    return x[0].shape[-1:] if x[1] is None else x[1].shape


def layer_norm(x, i, r, normalize=normalize):
    y = normalize(x[0], list(range(-len(own_axes(x)), 0)), r[0] or 1e-5)
    return y * (1 if x[1] is None else x[1]) + (0 if x[2] is None else x[2])


def rms_norm(x, i, r):
    axes = list(range(-len(own_axes(x)), 0))
    return x[0] * torch.rsqrt(x[0].square().mean(axes, keepdim=True) + r[0]) * (1 if x[1] is None else x[1])


# How torch computes each op: operands, integers or options, reals.
COMPUTE = {
    "neg": lambda x, i, r: -x[0], "abs": lambda x, i, r: x[0].abs(), "square": lambda x, i, r: x[0].square(),
    "sqrt": lambda x, i, r: x[0].sqrt(), "rsqrt": lambda x, i, r: x[0].rsqrt(),
    "reciprocal": lambda x, i, r: x[0].reciprocal(), "exp": lambda x, i, r: x[0].exp(), "log": lambda x, i, r: x[0].log(),
    "tanh": lambda x, i, r: x[0].tanh(), "sigmoid": lambda x, i, r: x[0].sigmoid(), "relu": lambda x, i, r: x[0].relu(),
    "leaky_relu": lambda x, i, r: F.leaky_relu(x[0], r[0]), "clamp": lambda x, i, r: x[0].clamp(r[0], r[1]),
    "softplus": lambda x, i, r: F.softplus(x[0], r[0], r[1]), "gelu": lambda x, i, r: F.gelu(x[0]),
    "gelu_tanh": lambda x, i, r: F.gelu(x[0], approximate="tanh"),
    "scale": lambda x, i, r: x[0] * r[0], "offset": lambda x, i, r: x[0] + r[0],
    "add": lambda x, i, r: x[0] + x[1], "sub": lambda x, i, r: x[0] - x[1], "mul": lambda x, i, r: x[0] * x[1],
    "div": lambda x, i, r: x[0] / x[1], "pow": lambda x, i, r: x[0] ** x[1],
    "maximum": lambda x, i, r: torch.maximum(x[0], x[1]), "minimum": lambda x, i, r: torch.minimum(x[0], x[1]),
    "equal": lambda x, i, r: x[0] == x[1], "greater": lambda x, i, r: x[0] > x[1],
    "less": lambda x, i, r: x[0] < x[1], "less_equal": lambda x, i, r: x[0] <= x[1],
    **{n: (lambda f: lambda x, i, r: f(x[0]))(getattr(F, n)) for n in "selu relu6 softsign logsigmoid".split()},
    "hardsigmoid": composed(lambda x, i, r: F.hardsigmoid(x[0]), lambda x, i, r: (x[0] + 3).clamp(0, 6) / 6),
    "hardtanh": lambda x, i, r: F.hardtanh(x[0], *r), "prelu": lambda x, i, r: F.prelu(x[0], x[1]),
    "split": lambda x, i, r: torch.split(x[0], i[2:], i[1])[i[0]], "chunk": lambda x, i, r: torch.chunk(x[0], i[2], i[1])[i[0]],
    "unbind": lambda x, i, r: torch.unbind(x[0], i[1])[i[0]],
    "squeeze": lambda x, i, r: x[0].squeeze(i[0]), "unsqueeze": lambda x, i, r: x[0].unsqueeze(i[0]),
    "argsort": lambda x, i, r: torch.argsort(x[0], dim=i[0], descending=bool(i[1]), stable=True),
    "silu": lambda x, i, r: F.silu(x[0]), "mish": lambda x, i, r: F.mish(x[0]), "elu": lambda x, i, r: F.elu(x[0], r[0]),
    "hardswish": lambda x, i, r: F.hardswish(x[0]),
    **{n: (lambda f: lambda x, i, r: f(x[0]))(getattr(torch, n)) for n in
       "erf sin cos tan asin acos atan sinh cosh asinh acosh atanh expm1 log1p floor ceil round trunc sign isnan isinf logical_not bitwise_not".split()},
    **{n: (lambda f: lambda x, i, r: f(x[0], x[1]))(getattr(torch, n)) for n in
       "atan2 fmod remainder floor_divide logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()},
    "trunc_divide": lambda x, i, r: torch.div(x[0], x[1], rounding_mode="trunc"),
    "bincount": lambda x, i, r: torch.bincount(x[0].flatten(), minlength=i[0]),
    "not_equal": lambda x, i, r: x[0] != x[1], "greater_equal": lambda x, i, r: x[0] >= x[1],
    "stack": lambda x, i, r: torch.stack(x, i[0]), "tile": lambda x, i, r: x[0].tile(i),
    "roll": lambda x, i, r: x[0].roll(i[0], i[1]), "flip": lambda x, i, r: x[0].flip(i),
    "repeat_interleave": lambda x, i, r: x[0].repeat_interleave(i[0], i[1]),
    "tril": lambda x, i, r: x[0].tril(i[0]), "triu": lambda x, i, r: x[0].triu(i[0]),
    "constant_pad": lambda x, i, r: F.pad(x[0], i, value=r[0]),
    "one_hot": lambda x, i, r: F.one_hot(x[0], i[0]),
    "gather": lambda x, i, r: x[0].gather(i[0], x[1]), "take_along_axis": lambda x, i, r: x[0].take_along_dim(x[1], i[0]),
    "index_select": lambda x, i, r: x[0].index_select(i[0], x[1]),
    "scatter": lambda x, i, r: x[0].scatter(i[0], x[1], x[2]), "scatter_add": lambda x, i, r: x[0].scatter_add(i[0], x[1], x[2]),
    "index_add": lambda x, i, r: x[0].index_add(i[0], x[1], x[2]),
    "scatter_reduce": lambda x, i, r: x[0].scatter_reduce(i[0], x[1], x[2], SCATTERS[i[1]], include_self=bool(i[2])),
    "index_reduce": lambda x, i, r: x[0].index_reduce(i[0], x[1], x[2], SCATTERS[i[1]], include_self=bool(i[2])),
    "index": lambda x, i, r: torch.ops.aten.index(x[0], indices(i, x[1:])),
    "index_put": lambda x, i, r: torch.ops.aten.index_put(x[0], indices(i[1:], x[2:]), x[1], bool(i[0])),
    "sort": lambda x, i, r: torch.sort(x[0], dim=i[0], descending=bool(i[1]), stable=True)[0],
    "topk": lambda x, i, r: torch.sort(x[0], dim=i[1], descending=bool(i[2]), stable=True)[0].narrow(i[1], 0, i[0]),
    "where": lambda x, i, r: torch.where(x[0], x[1], x[2]),
    "sum": lambda x, i, r: reduced(torch.sum, x[0], i), "mean": lambda x, i, r: reduced(torch.mean, x[0], i),
    "amax": lambda x, i, r: reduced(torch.amax, x[0], i), "amin": lambda x, i, r: reduced(torch.amin, x[0], i),
    "var": lambda x, i, r: spread(torch.var, x[0], i, r[0]),
    "logsumexp": lambda x, i, r: reduced(torch.logsumexp, x[0], i),
    "vector_norm": lambda x, i, r: reduced(lambda x, **how: torch.linalg.vector_norm(x, r[0], **how), x[0], i),
    "std": lambda x, i, r: spread(torch.std, x[0], i, r[0]),
    "any": lambda x, i, r: reduced(torch.any, x[0], i), "all": lambda x, i, r: reduced(torch.all, x[0], i),
    "max": lambda x, i, r: torch.max(x[0], i[0], bool(i[1]))[i[2]], "min": lambda x, i, r: torch.min(x[0], i[0], bool(i[1]))[i[2]],
    "prod": lambda x, i, r: product(x[0], i),
    "cumsum": lambda x, i, r: x[0].cumsum(i[0]), "cumprod": lambda x, i, r: x[0].cumprod(i[0]),
    "argmin": lambda x, i, r: x[0].argmin(dim=i[0], keepdim=bool(i[1])),
    "argmax": lambda x, i, r: x[0].argmax(dim=i[0], keepdim=bool(i[1])),
    "reshape": lambda x, i, r: x[0].reshape(i), "flatten": lambda x, i, r: x[0].flatten(i[0]),
    "permute": lambda x, i, r: x[0].permute(i), "transpose": lambda x, i, r: x[0].transpose(i[0], i[1]),
    "broadcast_to": lambda x, i, r: x[0].expand(i), "concat": lambda x, i, r: torch.cat(x, i[0]),
    "slice": lambda x, i, r: sliced(x[0], i), "pad": lambda x, i, r: padded(x[0], i),
    "strided_slice": lambda x, i, r: x[0].movedim(i[0], 0)[i[1]:i[2]:i[3]].movedim(0, i[0]),
    "matmul": lambda x, i, r: matrix(x[0], i[0]) @ matrix(x[1], i[1]),
    "linear": lambda x, i, r: F.linear(x[0], x[1], x[2]), "embedding": lambda x, i, r: F.embedding(x[1], x[0]),
    "attention": lambda x, i, r: attention(*x, i, r), "attention_with": attention_torch, "rotary": rotary,
    "lstm": lambda x, i, r: recurrent("lstm", *x, *i), "gru": lambda x, i, r: recurrent("gru", *x, i[0]),
    "rnn": lambda x, i, r: recurrent("rnn", *x, None, *i),
    "conv2d": lambda x, i, r: F.conv2d(x[0], x[1], x[2], **window(i)),
    "conv_transpose2d": lambda x, i, r: F.conv_transpose2d(x[0], x[1], x[2], output_padding=(i[7], i[8]), **window(i)),
    "max_pool2d": lambda x, i, r: F.max_pool2d(x[0], **pool(i, "max")),
    "avg_pool2d": lambda x, i, r: F.avg_pool2d(x[0], **pool(i, "avg")),
    "adaptive_avg_pool2d": lambda x, i, r: F.adaptive_avg_pool2d(x[0], i),
    "interpolate": lambda x, i, r: interpolate(x[0], i, r),
    "interpolate3d": lambda x, i, r: interpolate3d(x[0], i),
    "grid_sample": lambda x, i, r: grid_sample(x[0], x[1], i),
    "affine_grid": lambda x, i, r: F.affine_grid(x[0], (len(x[0]), 1, i[0], i[1]), align_corners=bool(i[2])),
    "unfold": lambda x, i, r: F.unfold(x[0], **sliding(i)),
    "fold": lambda x, i, r: F.fold(x[0], (i[11], i[12]), **sliding(i)),
    "pixel_shuffle": lambda x, i, r: F.pixel_shuffle(x[0], i[0]),
    "pixel_unshuffle": lambda x, i, r: F.pixel_unshuffle(x[0], i[0]),
    "reflect_pad": lambda x, i, r: F.pad(x[0], i, mode="reflect"),
    "replicate_pad": lambda x, i, r: F.pad(x[0], i, mode="replicate"),
    "circular_pad": lambda x, i, r: F.pad(x[0], i, mode="circular"),
    "conv1d": lambda x, i, r: F.conv1d(x[0], x[1], x[2], **line(i)),
    "conv_transpose1d": lambda x, i, r: F.conv_transpose1d(x[0], x[1], x[2], output_padding=i[7], **line(i)),
    "max_pool1d": lambda x, i, r: F.max_pool1d(x[0], **pool_line(i, "max")),
    "avg_pool1d": lambda x, i, r: F.avg_pool1d(x[0], **pool_line(i, "avg")),
    "adaptive_avg_pool1d": lambda x, i, r: F.adaptive_avg_pool1d(x[0], i[0]),
    "adaptive_max_pool1d": lambda x, i, r: F.adaptive_max_pool1d(x[0], i[0]),
    "conv3d": lambda x, i, r: F.conv3d(x[0], x[1], x[2], **volume(i)),
    "conv_transpose3d": lambda x, i, r: F.conv_transpose3d(x[0], x[1], x[2], output_padding=i[9:12], **volume(i)),
    "max_pool3d": lambda x, i, r: F.max_pool3d(x[0], **pool_volume(i, "max")),
    "avg_pool3d": lambda x, i, r: F.avg_pool3d(x[0], **pool_volume(i, "avg")),
    "adaptive_avg_pool3d": lambda x, i, r: F.adaptive_avg_pool3d(x[0], i),
    "adaptive_max_pool3d": lambda x, i, r: F.adaptive_max_pool3d(x[0], i),
    "adaptive_max_pool2d": lambda x, i, r: F.adaptive_max_pool2d(x[0], i),
    "softmax": lambda x, i, r: x[0].softmax(i[0]), "log_softmax": lambda x, i, r: x[0].log_softmax(i[0]),
    "layer_norm": composed(lambda x, i, r: F.layer_norm(x[0], own_axes(x), x[1], x[2], r[0] or 1e-5), layer_norm),
    "rms_norm": composed(lambda x, i, r: F.rms_norm(x[0], own_axes(x), x[1], r[0]), rms_norm),
    "batch_norm_eval": lambda x, i, r: batch_norm_eval(*x, r[0]),
    "group_norm": composed(lambda x, i, r: F.group_norm(x[0], i[0], x[1], x[2], r[0]), lambda x, i, r: channel_norm(x, i[0], r[0])),
    "instance_norm": composed(lambda x, i, r: F.instance_norm(x[0], weight=x[1], bias=x[2], eps=r[0]),
                              lambda x, i, r: channel_norm(x, x[0].shape[1], r[0])),
    "cross_entropy_with": composed(class_loss(F.cross_entropy), lambda x, o, r: of_classes(x[0].log_softmax(1), x, o)),
    "soft_cross_entropy": loss(F.cross_entropy, "weight"),
    "nll": composed(class_loss(F.nll_loss), lambda x, o, r: of_classes(x[0], x, o)),
    "l1": loss(F.l1_loss), "smooth_l1": loss(F.smooth_l1_loss), "huber": loss(F.huber_loss), "mse_with": loss(F.mse_loss),
    "kl_div": loss(F.kl_div), "hinge_embedding": loss(F.hinge_embedding_loss), "margin_ranking": loss(F.margin_ranking_loss),
    "cosine_embedding": loss(F.cosine_embedding_loss), "triplet_margin": loss(F.triplet_margin_loss),
    "bce": composed(loss(F.binary_cross_entropy, "weight"), bce),
    "bce_with_logits_with": composed(loss(F.binary_cross_entropy_with_logits, "weight", "pos_weight"), bce_with_logits),
    "cosine_similarity": lambda x, i, r: F.cosine_similarity(x[0], x[1], i[0], r[0]),
    "normalize": lambda x, i, r: F.normalize(x[0], dim=i[0], eps=r[0]),
    "cross_entropy": lambda x, i, r: F.cross_entropy(x[0], x[1]),
    "bce_with_logits": lambda x, i, r: x[0].clamp(min=0) - x[0] * x[1] + torch.log1p(torch.exp(-x[0].abs())),
    "mse": lambda x, i, r: (x[0] - x[1]).square().mean(),
}


SEQUENCES = {
    "arange": lambda i, r: torch.arange(*r, dtype=torch.float64), "linspace": lambda i, r: torch.linspace(*r, i[1], dtype=torch.float64),
    "eye": lambda i, r: torch.eye(i[1], i[2]),
    "constant_tensor": lambda i, r: torch.tensor(r, dtype=DTYPES[i[0]]).reshape(i[1:]),
}


class ByResult(torch.autograd.Function):
    """A function of one element whose gradient is made from its result, as that was rounded: near its limit 1 - y * y of
    tanh is all rounding."""

    FACTORS = {"tanh": lambda y: 1 - y * y, "sigmoid": lambda y: y * (1 - y), "exp": lambda y: y, "sqrt": lambda y: 0.5 / y}

    @staticmethod
    def forward(ctx, x, op, noise):
        y, ctx.op = noise(COMPUTE[op]([x], None, None)), op
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ByResult.FACTORS[ctx.op](ctx.saved_tensors[0]), None, None


class Noise:
    """Disturbs data and results: relative errors of up to `size`."""

    def __init__(self, size, seed):
        self.size, self.random = size, torch.Generator().manual_seed(seed)

    def of(self, rank):
        """Numbers of a rank's own, whatever the order of threads."""
        return Noise(self.size, self.random.initial_seed() * 8 + rank + 1)

    def __call__(self, x):
        if x is None or not self.size or not x.is_floating_point():
            return x
        u = torch.rand(x.shape, generator=self.random, dtype=x.dtype)
        return x * (1 + self.size * (2 * u - 1))


class Ranks:
    """Ranks that evaluate a graph as threads: each op over ranks sees the values of all."""

    def __init__(self, n):
        self.values, self.meets, self.lock = [None] * n, threading.Barrier(n, timeout=60), threading.Lock()

    def exchange(self, rank, x):
        self.values[rank] = x
        self.meets.wait()
        got = list(self.values)
        self.meets.wait()
        return got


def over_ranks(op, x, i, rank, ranks):
    """Rank `rank` of an op; x is its operand, or None."""
    if op == "rank":
        return torch.tensor(rank)
    if op == "world":
        return torch.tensor(len(ranks.values))
    if op == "rank_rows":
        return torch.arange(x.shape[0]) + rank * x.shape[0]
    if op == "reduce_scatter":
        x = torch.cat(ranks.exchange(rank, x), i[0]) * x.amax(i[0], keepdim=True)
    all = ranks.exchange(rank, x)
    if op == "broadcast":
        return all[i[0]] * 1
    if op == "all_gather":
        return torch.cat(all, i[0]).square().sum(i[0], keepdim=True)
    how = i[1] if op == "reduce_scatter" else i[0]
    y = torch.stack(all)
    y = [lambda: y.sum(0), lambda: y.mean(0), lambda: y.amax(0), lambda: y.amin(0)][how]()
    return y.chunk(len(all), i[0])[rank] if op == "reduce_scatter" else y


OVER_RANKS = {"rank", "world", "rank_rows", "reduce_scatter", "broadcast", "all_gather", "all_reduce"}


class Evaluation:
    def __init__(self, case, dtype=torch.float64, noise=0.0, seed=0, hooks=False, in_steps=False):
        self.case, self.dtype, self.noise, self.hooks = case, dtype, Noise(noise, seed), hooks
        self.in_steps = in_steps  # disturbs what an engine rounds inside of norms and attention
        self.variables = {v["path"]: self.noise(torch.tensor(v["v"], dtype=torch.float32).to(dtype)).reshape(v["shape"])
                          for v in case["vars"]}
        self.is_state = {v["path"]: bool(v.get("state")) for v in case["vars"]}
        self.graphs = {g["name"]: g for g in case["graphs"]}
        self.frozen = {p for g in case["graphs"] for p in g.get("freeze", [])}
        self.optimizers, self.steps, self.results = {}, {}, {}
        self.rank, self.ranks = 0, None

    # ---- one micro-batch ----

    def leaf(self, x):
        return x.detach().requires_grad_() if x.is_floating_point() else x

    def parameter(self, path):
        if path not in self.leaves:
            self.leaves[path] = self.variables[path].detach().requires_grad_()
        return self.leaves[path]

    def tensor(self, list, dtype, shape):
        if dtype < 2:
            return self.noise(torch.tensor(list, dtype=torch.float32).to(self.dtype)).reshape(shape)
        return torch.tensor(list, dtype=DTYPES[dtype]).reshape(shape)

    def cast(self, x, to):
        if DTYPES[to].is_floating_point and to < 2:
            return x.to(self.dtype) * 1 if x.dtype == self.dtype else x.to(self.dtype)
        return x.to(DTYPES[to])

    def words(self, graph, scope, n):
        key = philox.node_key(graph, scope, self.ordinal)
        self.ordinal += 1
        return philox.words(self.case.get("seed", 0), key, self.steps.get(graph, 0), self.micro, n)

    def random(self, graph, node, scope):
        shape, r = node.get("i", []), node["r"]
        w = self.words(graph["name"], scope, math.prod(shape))
        f = philox.uniform if node["op"] == "random_uniform" else philox.normal
        x = torch.tensor(f(w, r[0], r[1])[:math.prod(shape)], dtype=torch.float32).to(self.dtype)
        return self.leaf(self.noise(x.reshape(shape) + self.noise.size * abs(r[1])))  # good to a part of the width

    def dropout(self, graph, node, scope, x):
        p = node["r"][0]
        if p == 0 or not graph["train"]:
            return x
        n = x.numel()
        dropped = torch.from_numpy(self.words(graph["name"], scope, n)[:n] < int(p * 4294967296.0))
        if x.dim() in (4, 5):  # counted as the image or volume lies in memory
            s = x.shape
            keep = ~dropped.reshape(s[0], *s[2:], s[1]).movedim(-1, 1)
        else:
            keep = ~dropped.reshape(x.shape)
        return x * keep.to(x.dtype) * (1 / (1 - p))

    def kept(self, graph, o, scope, x):
        """What dropout multiplies attention's softmax by: the words of a row begin at a multiple of four."""
        p, shape = o.get("dropout", 0), [*x[0].shape[:3], x[1].shape[2]]
        if p == 0 or not graph["train"]:
            return 1
        rows, across = math.prod(shape[:3]), (shape[3] + 3) // 4 * 4
        words = torch.from_numpy(self.words(graph["name"], scope, rows * across)[:rows * across] >= int(p * 4294967296.0))
        return words.reshape(*shape[:3], across)[..., :shape[3]].to(x[0].dtype) * (1 / (1 - p))

    def disturbed(self, x):
        """As rounding disturbs a result that is read more than once: the value and the gradient that comes back to it."""
        if x.requires_grad:
            x = x * 1
            x.register_hook(self.noise)
        return self.noise(x)

    def softmax(self, s):
        """An engine computes its gradient p (g - sum p g) as that difference: where it cancels (a row that sees one key),
        what is left is the rounding of both."""
        s = s * 1
        p = s.softmax(-1)
        if p.requires_grad:
            of_result = []
            p.register_hook(lambda g: of_result.append((p * g).detach()))
            s.register_hook(lambda g: g + self.noise(torch.ones_like(g)).sub(1) * p.detach() * of_result[-1].abs().sum(-1, True))
        return p

    def normalized(self, x, axes, eps):
        """In the steps in which an engine computes it. Where a gradient cancels (a constant input), what is left of it is
        the rounding of these steps."""
        centered = self.disturbed(x - self.disturbed(x.mean(axes, keepdim=True)))
        return centered * self.disturbed(torch.rsqrt(centered.square().mean(axes, keepdim=True) + eps))

    def batch_norm_in_steps(self, graph, x, w, b, eps, kept):
        shape = [1, -1] + [1] * (x.dim() - 2)
        axes = [k for k in range(x.dim()) if k != 1]
        if graph["train"]:
            y = self.normalized(x, axes, eps)
        else:
            y = (x - kept[0].reshape(shape)) * torch.rsqrt(kept[1].reshape(shape) + eps)
        return y * w.reshape(shape) + b.reshape(shape)

    def batch_norm(self, graph, node, x):
        w, b = self.parameter(node["s"] + "/weight"), self.parameter(node["s"] + "/bias")
        mean, var = node["s"] + "/running_mean", node["s"] + "/running_var"
        eps, momentum = node["r"][0] or 1e-5, node["r"][1] or 0.1
        m, v = self.variables[mean].clone(), self.variables[var].clone()
        y = F.batch_norm(x, m, v, w, b, graph["train"], momentum, eps)
        if graph["train"] and not self.in_steps:
            shape = [1, -1] + [1] * (x.dim() - 2)
            y = normalize(x, [k for k in range(x.dim()) if k != 1], eps) * w.reshape(shape) + b.reshape(shape)
        if self.in_steps:
            y = self.batch_norm_in_steps(graph, x, w, b, eps, (self.variables[mean], self.variables[var]))
        if graph["train"]:
            self.variables[mean], self.variables[var] = m, v
        return y

    def node(self, graph, node, values, feeds):
        op, i, r = node["op"], node.get("o", node.get("i", [])), node.get("r", [])
        scope = node.get("scope", "")
        x = [None if k < 0 else values[k] for k in node["in"]]
        if op == "input":
            return self.leaf(self.tensor(feeds[node["s"]], i[0], i[1:]))
        if op == "parameter":
            return self.parameter(node["s"])
        if op == "state":
            return self.leaf(self.variables[node["s"]])
        if op == "constant":
            return self.leaf(torch.full(i[1:], r[0], dtype=torch.float32).to(self.dtype))
        if op in SEQUENCES:
            x = SEQUENCES[op](i, r)
            return self.leaf(x.to(self.dtype)) if x.is_floating_point() else x
        if op in ("random_uniform", "random_normal"):
            return self.random(graph, node, scope)
        if op == "dropout":
            return self.dropout(graph, node, scope, x[0])
        if op == "stop_gradient":
            return self.leaf(x[0] * 1)
        if op == "cast":
            y = self.cast(x[0], i[0])
            return y if y.requires_grad or not y.is_floating_point() else self.leaf(y)
        x = [t.contiguous() if t is not None and t.dim() == 4 else t for t in x]
        if op in OVER_RANKS:
            y = over_ranks(op, x[0] if x else None, i, self.rank, self.ranks)
            if self.hooks and y.requires_grad:
                y.register_hook(self.noise)
            return self.noise(y)
        if op == "batch_norm":
            return self.batch_norm(graph, node, x[0])
        if op == "einsum":
            y = torch.einsum(node["s"], *x)
        elif op == "attention_with" and (self.in_steps or (i.get("dropout") and graph["train"])):
            steps = [self.disturbed, self.softmax] if self.in_steps else []
            y = attention_with(x, i, self.kept(graph, i, scope, x), *steps)
        elif self.in_steps and op == "layer_norm":
            y = layer_norm(x, i, r, self.normalized)
        elif self.in_steps and op == "attention":
            y = attention(*x, i, r, self.disturbed, self.softmax)
        elif self.hooks and op in ByResult.FACTORS:
            y = ByResult.apply(x[0], op, self.noise)
        else:
            y = COMPUTE[op](x, i, r)
        if isinstance(COMPUTE.get(op), composed) and not self.noise.size:
            COMPUTE[op].check(y, x, i, r)
        if self.hooks and y.requires_grad and y.is_floating_point():
            y.register_hook(self.noise)
        return self.noise(y)

    def forward(self, graph, feeds):
        values, self.leaves, self.ordinal = [], {}, 0
        for node in graph["nodes"]:
            if node["op"] == "gradients":
                values += self.gradients(values[node["in"][0]], [values[k] for k in node["in"][1:]])
            elif node["op"] == "assign":
                path = next(n["s"] for n in graph["nodes"] if n is self.producer[graph["name"]][node["in"][0]])
                self.variables[path] = values[node["in"][1]].detach()
            else:
                values.append(self.node(graph, node, values, feeds))
        return values

    def gradients(self, loss, by):
        if not loss.requires_grad:
            return [torch.zeros_like(v).requires_grad_() for v in by]
        if self.ranks:  # ranks differentiate the sum of their losses
            loss = sum(self.ranks.exchange(self.rank, loss))
            with self.ranks.lock:
                list = torch.autograd.grad(loss, by, create_graph=True, allow_unused=True)
            self.ranks.exchange(self.rank, None)
        else:
            list = torch.autograd.grad(loss, by, create_graph=True, allow_unused=True)
        return [torch.zeros_like(v).requires_grad_() if g is None else g if g.requires_grad else g.requires_grad_()
                for v, g in zip(by, list)]

    # ---- a step ----

    def trained(self, m):
        return [p for p in self.variables
                if not self.is_state[p] and p not in self.frozen and matches(m["pattern"], p)]

    def together(self, graph, feeds, micros):
        """Rank r evaluates micro-batch micros[r]: each rank's evaluation, and its values."""
        ranks, of, errors = Ranks(len(micros)), [], []
        values = [None] * len(micros)
        for r, micro in enumerate(micros):
            e = copy.copy(self)
            e.rank, e.ranks, e.micro, e.noise = r, ranks, micro, self.noise.of(r)
            of.append(e)

        def forward(r):
            try:
                values[r] = of[r].forward(graph, feeds[micros[r]])
            except BaseException as error:
                errors.append(error)
                ranks.meets.abort()
        threads = [threading.Thread(target=forward, args=(r,)) for r in range(len(micros))]
        [t.start() for t in threads]
        [t.join() for t in threads]
        for error in sorted(errors, key=lambda e: isinstance(e, threading.BrokenBarrierError)):
            raise error
        return of, values

    def step_together(self, number, run):
        """Of a case with ops over ranks: each rank has as many micro-batches, in order."""
        graph, n = self.graphs[run["graph"]], self.case["ranks"]
        sums, per = [{} for _ in graph["mins"]], len(run["feeds"]) // n
        for k in range(per):
            micros = [r * per + k for r in range(n)]
            of, values = self.together(graph, run["feeds"], micros)
            for micro, v in zip(micros, values):
                for o in graph["outs"]:
                    self.results["%d.%d/%s" % (number, micro, o["name"])] = v[o["id"]].detach()
            for m, all in zip(graph["mins"], sums):
                loss = sum(v[m["loss"]] for v in values) / self.case["micro"]
                for e in of:
                    e.add(loss, self.trained(m), all)
        return graph, sums

    def step(self, number, run):
        if "ranks" in self.case:
            graph, sums = self.step_together(number, run)
            return self.end(number, graph, sums)
        graph = self.graphs[run["graph"]]
        sums = [{} for _ in graph["mins"]]
        for micro, feeds in enumerate(run["feeds"]):
            self.micro = micro if graph["mins"] else 0
            values = self.forward(graph, feeds)
            for o in graph["outs"]:
                self.results["%d.%d/%s" % (number, micro, o["name"])] = values[o["id"]].detach()
            for m, sum in zip(graph["mins"], sums):
                self.add(values[m["loss"]] / self.case.get("micro", 1), self.trained(m), sum)
            if not graph["mins"]:
                self.steps[graph["name"]] = self.steps.get(graph["name"], 0) + 1
        self.end(number, graph, sums)

    def end(self, number, graph, sums):
        if "ranks" in self.case and not graph["mins"]:
            self.steps[graph["name"]] = self.steps.get(graph["name"], 0) + 1
        for m, sum in zip(graph["mins"], sums):
            self.update(m, sum)
        if graph["mins"]:
            self.steps[graph["name"]] = self.steps.get(graph["name"], 0) + 1
        for path, v in self.variables.items():
            self.results["%d:%s" % (number, path)] = v.detach().clone()

    def add(self, loss, paths, sum):
        leaves = [self.parameter(p) for p in paths]
        list = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True) if loss.requires_grad else []
        for p, g in zip(paths, list):
            if g is not None:
                sum[p] = sum[p] + g if p in sum else g

    def update(self, m, gradients):
        if m["name"] not in self.optimizers:
            self.optimizers[m["name"]] = self.optimizer(m)
        o, by_path, count = self.optimizers[m["name"]]
        for p, tensor in by_path.items():
            tensor.data = self.variables[p].clone()
            tensor.grad = gradients.get(p, torch.zeros_like(tensor)).detach().clone()
        if m.get("clip_norm"):
            torch.nn.utils.clip_grad_norm_(list(by_path.values()), m["clip_norm"], foreach=False)
        for group in o.param_groups:
            group["lr"] = m["lr"] * group["scale"] * schedule(m, count[0])
        o.step()
        count[0] += 1
        self.pending.update({p: t.detach().clone() for p, t in by_path.items()})

    def optimizer(self, m):
        by_path = {p: torch.nn.Parameter(self.variables[p].clone()) for p in self.trained(m)}
        decay = m.get("weight_decay", 0.01 if m["type"] == "adamw" else 0)
        groups = {}
        for p, t in by_path.items():
            lr_scale, decay_scale = next(((g["lr_scale"], g["decay_scale"]) for g in m.get("groups", [])
                                          if wildcard(g["pattern"], p)), (1, 1))
            groups.setdefault((lr_scale, decay_scale), []).append(t)
        list = [{"params": t, "scale": s, "weight_decay": decay * d} for (s, d), t in groups.items()]
        common = dict(lr=m["lr"], foreach=False)
        if m["type"] == "sgd":
            o = torch.optim.SGD(list, momentum=m.get("momentum", 0), dampening=m.get("dampening", 0),
                                nesterov=m.get("nesterov", False), **common)
        else:
            kind = torch.optim.Adam if m["type"] == "adam" else torch.optim.AdamW
            o = kind(list, betas=(m.get("beta1", 0.9), m.get("beta2", 0.999)), eps=m.get("eps", 1e-8), **common)
        return o, by_path, [0]

    def run(self):
        self.producer = {g["name"]: producers(g) for g in self.case["graphs"]}
        for number, run in enumerate(self.case["runs"]):
            self.pending = {}
            self.step(number, run)
            for p, t in self.pending.items():
                self.variables[p] = t
                self.results["%d:%s" % (number, p)] = t
        return self.results


def producers(graph):
    """The node of each value."""
    list = []
    for n in graph["nodes"]:
        list += [n] * results(n)
    return list


def wildcard(pattern, path):
    """'*' matches any characters."""
    if "*" not in pattern:
        return matches(pattern, path)
    head, *middle, tail = pattern.split("*")
    if not path.startswith(head) or not path.endswith(tail) or len(path) < len(head) + len(tail):
        return False
    return not any(middle)


def schedule(m, t):
    warmup, kind = m.get("warmup_steps", 0), m.get("schedule", 0)
    if t < warmup:
        return (t + 1) / warmup
    if kind == 1:
        return (m.get("gamma") or 0.1) ** (t // m["step_size"])
    if kind == 2:
        way = (t - warmup) / (m["total_steps"] - warmup)
        floor = m.get("floor", 0)
        return floor if way >= 1 else floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * way))
    return 1


# ---- results and bounds ----

EPSILON = 2.0 ** -24


def largest(x):
    return float(x.abs().max()) if x.numel() else 0.0


def difference(a, b):
    """The largest one; infinite where only one is a number."""
    d = (a.double() - b.double()).abs()
    return float(torch.nan_to_num(d, nan=math.inf).max()) if d.numel() else 0.0


class Ill(Exception):
    """No engine can be held to this case: it is not finite, or the last bits decide."""


def bounds(case, samples=1):
    """Puts "want", "within" and "within_reduced" into the case. A tensor may be off by what rounding moves it, measured in f32
    with disturbed data (at a second look, with more samples, disturbed gradients too), times 24, and by 32 roundings of
    its largest element. Ill where that is more than 2%."""
    want = Evaluation(case).run()
    for x in want.values():
        if x.is_floating_point() and not torch.isfinite(x).all():
            raise Ill("not finite")
        if x.is_floating_point() and largest(x) > 1e6:
            raise Ill("too large")
    moved = {k: 0.0 for k in want}
    for seed in range(samples):
        other = Evaluation(case, torch.float32, 2.0 ** -22, seed, hooks=samples > 1, in_steps=samples > 1).run()
        for k, x in want.items():
            moved[k] = max(moved[k], difference(x, other[k]))
    low = {}
    for seed in range(samples if any(c.get("precision") for c in case["configs"]) else 0):
        other = Evaluation(case, torch.float64, 2.0 ** -8, 1 + seed, hooks=True, in_steps=samples > 1).run()
        for k, x in want.items():
            low[k] = max(low.get(k, 0.0), difference(x, other[k]))
    fill(case, want, moved, low)


def fill(case, want, moved, low):
    case["want"], case["within"], case["within_reduced"], dropped = {}, {}, {}, 0
    for k, x in want.items():
        exact = not x.is_floating_point()
        scale = largest(x)
        floor = 3e-8 if scale > 1e-6 else 8e-6  # what is zero except for rounding
        within = 0.0 if exact else 32 * EPSILON * scale + 24 * moved[k] + floor
        if (exact and moved[k]) or within > max(0.02 * scale, 1e-5):
            dropped += 1
            continue
        case["want"][k] = [int(n) for n in x.reshape(-1).tolist()] if exact else [
            float("%.9g" % n) for n in x.reshape(-1).tolist()]
        case["within"][k] = float("%.3g" % within)
        if low and not exact:
            rough = 2.0 ** -6 * scale + 6 * low[k] + floor
            if rough <= max(0.5 * scale, 1e-2):
                case["within_reduced"][k] = float("%.3g" % rough)
    case["dropped"] = dropped
    if not case["want"] or dropped * 2 > len(want):
        raise Ill("the last bits decide")
