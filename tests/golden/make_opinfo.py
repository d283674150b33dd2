#!/usr/bin/env python3
"""make_opinfo.py - PyTorch's answers for tests/pytorch/test_opinfo.c, of the samples that PyTorch tests itself with: op_db and module_db
of torch.testing._internal, on the CPU in f64 (these need the package expecttest).

    python tests/golden/make_opinfo.py [--seed S] [--all]       (writes tests/golden/opinfo.h and opinfo.txt.gz)

Seed 0 and a part of the samples are what the repository keeps. With others, build and run test_opinfo, and `git checkout` both files.

MAP has a function for each OpInfo of which Weft has the function: it takes a sample's arguments, and gives the same as C
(`out[0] = weft_softmax(in[0], 1)`) or raises Refused with a reason, which is counted. opinfo.h has a row for each sample, and
a line for each reason; opinfo.txt.gz has the numbers, a line for a tensor: operands in0, in1, ...; results y0, y1, ...;
gradients g0, g1, ... of L, the sum of the results times fixed numbers (fixed()), by the operands that are marked d; second
gradients h0, h1, ... of the sum of the gradients times fixed numbers, by the same operands and by the fixed numbers of L, and
z0, z1, ... by the results y that are not integers: numbers where PyTorch's gradient is computed from the result, else 0.
There are no gradients by and of tensors without elements.
Operands are marked d (gradients are by them) or -. After the type of a result stands how far PyTorch's f32, or f64 of operands that are one rounding of f32 away, is from it, as a
part of the largest element. Elements are cut to 16 bits, so f32 holds them too.
"""
import argparse
import gzip
import math
import random
from collections import Counter
from pathlib import Path

import numpy
import torch
import torch.nn.attention
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

HERE = Path(__file__).resolve().parent
MOST_ELEMENTS = 800  # of a tensor
# Of an OpInfo: samples, at equal distances among those that Weft can say; their numbers; such as differ by numbers alone; such as
# have no elements.
PART, WHOLE = (30, 10000, 2, 6), (10 ** 6, 10 ** 9, 10 ** 6, 10 ** 6)
TYPES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64", torch.int32: "i32", torch.uint8: "u8",
         torch.bool: "bool"}
OTHER_AXES, UNBATCHED, SCALAR = "no elements, and other axes", "no batch axis", "an axis of a tensor without axes"
LARGE, MORE = f"more than {MOST_ELEMENTS} elements", "beyond the counts kept here"
TWO_TYPES, RANDOM = "operands of two types", "random"


class Refused(Exception):
    pass


def refuse(condition, reason):
    if condition:
        raise Refused(reason)


# ---- C ----

def number(v):
    v = float(v)
    return "INFINITY" if v == math.inf else "-INFINITY" if v == -math.inf else "NAN" if v != v else \
        str(int(v)) if v == int(v) and abs(v) < 1e15 else repr(v)


def numbers(values):
    return "AXES(" + ", ".join(number(v) for v in values) + ")"


def pair(v, n=2):
    """A number or tuple as n numbers."""
    v = list(v) if isinstance(v, (tuple, list)) else [v]
    return v * n if len(v) == 1 else v


def braces(v):
    return "{" + ", ".join(number(x) for x in v) + "}"


def fields(**given):
    """Options whose value is not PyTorch's default."""
    said = [f".{k} = {v}" for k, v in given.items() if v is not None]
    return ", ".join(said)


def options(kind, **given):
    said = fields(**given)
    return f"&({kind}){{{said}}}" if said else "NULL"


class Call:
    """The operands of a call, in the order in which the C text meets them."""

    def __init__(self):
        self.tensors = []

    def __call__(self, t):
        for i, known in enumerate(self.tensors):
            if known is t:
                return f"in[{i}]"
        refuse(t.dtype not in TYPES, "a type that Weft does not have")
        self.tensors.append(t)
        return f"in[{len(self.tensors) - 1}]"

    def list(self, tensors):
        return f"{len(tensors)}, (weft_value *[]){{{', '.join(self(t) for t in tensors)}}}"

    def of(self, v, like):
        """A tensor, or a number as a tensor of `like`'s type."""
        if not torch.is_tensor(v):
            return f"number(g, {number(v)})"
        refuse(v.dtype != like.dtype, TWO_TYPES)
        return self(v)

    def maybe(self, t):
        return "NULL" if t is None else self(t)


def axis(x, dim):
    refuse(x.ndim == 0, SCALAR)
    return str(int(dim))


def axes(x, dim):
    """n_axes, axes of a reduction."""
    if dim is None or dim == () or dim == []:
        return "WEFT_ALL"
    refuse(x.ndim == 0, SCALAR)
    dim = [dim] if isinstance(dim, int) else dim
    return f"{len(dim)}, {numbers(dim)}"


def flag(b):
    return "true" if b else "false"


MAP = {}


def maps(*names):
    def put(f):
        for name in names:
            MAP[name] = f
        return f
    return put


# ---- pointwise ----

for op_name in """abs acos acosh asin asinh atan atanh cosh expm1 log1p sinh ceil cos erf exp floor isinf isnan log logical_not neg reciprocal round rsqrt sigmoid sign
        sin sqrt square tan tanh trunc nn.functional.hardsigmoid nn.functional.hardswish nn.functional.logsigmoid nn.functional.mish
        bitwise_not nn.functional.relu nn.functional.relu6 nn.functional.selu nn.functional.silu nn.functional.softsign""".split():
    MAP[op_name] = lambda c, x, inplace=False, _f=op_name.split(".")[-1]: f"weft_{_f}({c(x)})"

for op_name, weft in {"div.no_rounding_mode": "div", "true_divide": "div", "mul": "mul", "pow": "pow", "atan2": "atan2", "fmod": "fmod",
                      "remainder": "remainder", "floor_divide": "floor_divide", "maximum": "maximum", "minimum": "minimum", "max.binary": "maximum",
                      "min.binary": "minimum", "clamp_min": "maximum", "clamp_max": "minimum", "eq": "equal",
                      "ne": "not_equal", "gt": "greater", "ge": "greater_equal", "lt": "less", "le": "less_equal",
                      "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
                      **{f"bitwise_{n}": f"bitwise_{n}" for n in "and or xor left_shift right_shift".split()}}.items():
    MAP[op_name] = lambda c, x, y, _f=weft: f"weft_{_f}({c(x)}, {c.of(y, x)})"


def scaled(text, alpha):
    return text if alpha == 1 else f"weft_scale({text}, {number(alpha)})"


@maps("add")
def _(c, x, y, alpha=1):
    return f"weft_add({c(x)}, {scaled(c.of(y, x), alpha)})"


@maps("sub")
def _(c, x, y, alpha=1):
    return f"weft_sub({c(x)}, {scaled(c.of(y, x), alpha)})"


@maps("rsub")
def _(c, x, y, alpha=1):
    if not torch.is_tensor(y):
        return f"weft_offset(weft_scale({c(x)}, {number(-alpha)}), {number(y)})"
    return f"weft_sub({c.of(y, x)}, {scaled(c(x), alpha)})"


@maps("__radd__")
def _(c, x, y):
    return f"weft_add({c(y)}, {c(x)})" if torch.is_tensor(y) else f"weft_offset({c(x)}, {number(y)})"


@maps("__rmul__")
def _(c, x, y):
    return f"weft_mul({c(y)}, {c(x)})" if torch.is_tensor(y) else f"weft_scale({c(x)}, {number(y)})"


@maps("div.trunc_rounding", "div.floor_rounding")
def _(c, x, y, rounding_mode):
    return f"weft_{rounding_mode}_divide({c(x)}, {c.of(y, x)})"


@maps("clamp")
def _(c, x, min=None, max=None):
    text = c(x)
    for f, bound in ("maximum", min), ("minimum", max):
        text = text if bound is None else f"weft_{f}({text}, {c.of(bound, x)})"
    return text


@maps("where")
def _(c, x, condition, y):
    return f"weft_where({c(condition)}, {c(x)}, {c.of(y, x)})"


@maps("nn.functional.leaky_relu")
def _(c, x, negative_slope=0.01, inplace=False):
    return f"weft_leaky_relu({c(x)}, {number(negative_slope)})"


@maps("nn.functional.elu")
def _(c, x, alpha=1.0, inplace=False):
    return f"weft_elu({c(x)}, {number(alpha)})"


@maps("nn.functional.gelu")
def _(c, x, approximate="none"):
    return f"weft_gelu{'_tanh' if approximate == 'tanh' else ''}({c(x)})"


@maps("nn.functional.softplus")
def _(c, x, beta=1, threshold=20):
    return f"weft_softplus({c(x)}, {number(beta)}, {number(threshold)})"


@maps("nn.functional.hardtanh")
def _(c, x, min_val=-1, max_val=1, inplace=False):
    return f"weft_hardtanh({c(x)}, {number(min_val)}, {number(max_val)})"


@maps("nn.functional.prelu")
def _(c, x, weight):
    return f"weft_prelu({c(x)}, {c(weight)})"


@maps("nn.functional.dropout")
def _(c, x, p=0.5, training=True, inplace=False):
    refuse(training and p, RANDOM)
    return f"weft_dropout({c(x)}, {number(p)})"


for op_name, weft in {"bool": "WEFT_BOOL", "double": "WEFT_F64", "float": "WEFT_F32", "int": "WEFT_I32",
                      "long": "WEFT_I64"}.items():
    MAP[op_name] = lambda c, x, memory_format=None, _t=weft: f"weft_cast({c(x)}, {_t})"


# ---- reductions ----

for op_name in "sum mean amax amin prod any all logsumexp".split():
    def _(c, x, dim=None, keepdim=False, dtype=None, _f=op_name):
        refuse(keepdim and dim is None, "keepdim without axes")
        return f"weft_{_f}({c(x)}, {axes(x, dim)}, {flag(keepdim)})"
    MAP[op_name] = _

for op_name in "var", "std":
    def _(c, x, dim=None, unbiased=None, correction=1, keepdim=False, _f=op_name):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        correction = 1 if correction is None else correction
        correction = int(unbiased) if unbiased is not None else correction
        refuse(correction < 0, "a correction below 0")
        return f"weft_{_f}({c(x)}, {number(correction)}, {axes(x, dim)}, {flag(keepdim)})"
    MAP[op_name] = MAP[op_name + ".unbiased"] = _

for op_name in "argmax", "argmin":
    def _(c, x, dim=None, keepdim=False, _f=op_name):
        refuse(keepdim and dim is None, "keepdim without axes")
        if dim is None:
            return f"weft_{_f}(weft_flatten({c(x)}, 0), 0, false)"
        return f"weft_{_f}({c(x)}, {axis(x, dim)}, {flag(keepdim)})"
    MAP[op_name] = _

for op_name in "max", "min":
    MAP[op_name + ".reduction_no_dim"] = lambda c, x, _f=op_name: f"weft_a{_f}({c(x)}, WEFT_ALL, false)"
    MAP[op_name + ".reduction_with_dim"] = lambda c, x, dim, keepdim=False, _f=op_name: (
        f"weft_{_f}({c(x)}, {axis(x, dim)}, {flag(keepdim)}, &out[1])")


@maps("linalg.vector_norm")
def _(c, x, ord=2, dim=None, keepdim=False, dtype=None):
    return f"weft_vector_norm({c(x)}, {number(ord)}, {axes(x, dim)}, {flag(keepdim)})"


@maps("cumsum", "cumprod")
def _(c, x, dim, dtype=None, name=None):
    return f"weft_{name}({c(x)}, {axis(x, dim)})"


# ---- shapes ----

@maps("broadcast_to", "expand")
def _(c, x, shape):
    return f"weft_broadcast_to({c(x)}, {len(shape)}, {numbers(shape) if shape else 'NULL'})"


@maps("reshape", "view")
def _(c, x, shape):
    return f"weft_reshape({c(x)}, {len(shape)}, {numbers(shape) if shape else 'NULL'})"


@maps("flatten")
def _(c, x, start_dim=0, end_dim=-1):
    refuse(end_dim not in (-1, x.ndim - 1), "flatten up to an axis before the last")
    return f"weft_flatten({c(x)}, {axis(x, start_dim)})"


@maps("unflatten")
def _(c, x, dim, sizes):
    at = dim % x.ndim
    shape = [*x.shape[:at], *sizes, *x.shape[at + 1:]]
    return f"weft_reshape({c(x)}, {len(shape)}, {numbers(shape)})"


@maps("permute")
def _(c, x, dims):
    return f"weft_permute({c(x)}, {numbers(dims) if dims else 'NULL'})"


@maps("transpose")
def _(c, x, a, b):
    return f"weft_transpose({c(x)}, {axis(x, a)}, {b})"


@maps("unsqueeze")
def _(c, x, dim):
    return f"weft_unsqueeze({c(x)}, {dim})"


@maps("squeeze", "squeeze.multiple")
def _(c, x, dim=None):
    refuse(x.ndim == 0, SCALAR)
    dims = [i for i in range(x.ndim) if x.shape[i] == 1] if dim is None else [d % x.ndim for d in pair(dim, 1)]
    refuse(any(x.shape[d] != 1 for d in dims), "squeeze of an axis that stays")
    text = c(x)
    for d in sorted(dims, reverse=True):
        text = f"weft_squeeze({text}, {d})"
    return text


@maps("cat")
def _(c, tensors, dim=0):
    refuse(any(t.shape == (0,) for t in tensors) and any(t.ndim != 1 for t in tensors), OTHER_AXES)
    return f"weft_concat({c.list(tensors)}, {dim})"


@maps("stack")
def _(c, tensors, dim=0):
    return f"weft_stack({c.list(tensors)}, {dim})"


def sliced(c, x, dim, start, end):
    return f"weft_slice({c(x)}, {axis(x, dim)}, {start}, {'INT64_MAX' if end in (None, 0) and start < 0 or end is None else end})"


@maps("narrow")
def _(c, x, dim, start, length):
    refuse(torch.is_tensor(start), "a place that is a tensor")
    return sliced(c, x, dim, start, start + length)


@maps("select")
def _(c, x, dim, index):
    return f"weft_squeeze({sliced(c, x, dim, index, index + 1)}, {dim})"


@maps("slice")
def _(c, x, dim=0, start=None, end=None, step=1):
    if step == 1:
        return sliced(c, x, dim, start or 0, end)
    begin, stop, _ = slice(start, end).indices(x.shape[dim])
    return f"weft_strided_slice({c(x)}, {axis(x, dim)}, {begin}, {stop}, {step})"


@maps("tile", "repeat")
def _(c, x, repeats, name=None):
    return f"weft_tile({c(x)}, {len(repeats)}, {numbers(repeats) if repeats else 'NULL'})"


@maps("repeat_interleave")
def _(c, x, repeats, dim=None, output_size=None):
    refuse(torch.is_tensor(repeats), "repeats that differ")
    refuse(x.ndim == 0, SCALAR)
    return f"weft_repeat_interleave({c(x) if dim is not None else f'weft_flatten({c(x)}, 0)'}, {repeats}, {dim or 0})"


@maps("roll")
def _(c, x, shifts, dims=None):
    shape = x.shape
    text = c(x) if dims is not None else f"weft_flatten({c(x)}, 0)"
    for shift, dim in zip(pair(shifts, 1), pair(0 if dims is None else dims, 1)):
        refuse(0 not in shape and shift and shift % (x.shape[dim] if dims is not None else x.numel() or 1) == 0, "a roll that moves nothing")
        text = f"weft_roll({text}, {shift}, {dim})"
    return text if dims is not None else f"weft_reshape({text}, {len(shape)}, {numbers(shape)})"


@maps("flip")
def _(c, x, dims):
    refuse(not dims, "flip along no axis")
    return f"weft_flip({c(x)}, {axes(x, dims)})"


@maps("split", "split.list_args", "split_with_sizes")
def _(c, x, size, dim=0):
    length = x.shape[dim]
    sizes = [min(size, length - i) for i in range(0, length, size)] or [0] if isinstance(size, int) else list(size)
    return f"(void)weft_split({c(x)}, {len(sizes)}, {numbers(sizes)}, {axis(x, dim)}, out)"


@maps("chunk")
def _(c, x, n, dim=0):
    return f"(void)weft_chunk({c(x)}, {n}, {axis(x, dim)}, out)"


@maps("unbind")
def _(c, x, dim=0):
    return f"(void)weft_unbind({c(x)}, {x.shape[dim]}, {axis(x, dim)}, out)"


@maps("constant_pad_nd", "nn.functional.pad.constant", "nn.functional.pad.reflect", "nn.functional.pad.replicate",
      "nn.functional.pad.replicate_negative", "nn.functional.pad.circular")
def _(c, x, pad, mode="constant", value=None):
    if not isinstance(mode, str):
        mode, value = "constant", mode
    refuse(mode != "constant" and any(p < 0 for p in pad), "negative pads of a mode")
    refuse(all(p == 0 for p in pad), "no pads")
    if mode == "constant" and not value and len(pad) == 2 and min(pad) >= 0:
        return f"weft_pad({c(x)}, -1, {pad[0]}, {pad[1]})"
    last = f", {number(value or 0)}" if mode == "constant" else ""
    return f"weft_{mode}_pad({c(x)}, {len(pad) // 2}, {numbers(pad)}{last})"


@maps("tril", "triu")
def _(c, x, diagonal=0, name=None):
    return f"weft_{name}({c(x)}, {diagonal})"


@maps("nn.functional.one_hot")
def _(c, x, num_classes=-1):
    refuse(num_classes < 0, "a shape that depends on the data")
    return f"weft_one_hot({c(x)}, {num_classes}, WEFT_I64)"


def real_of(dtype):
    return "real" if dtype == torch.float64 else "WEFT_F32"


@maps("arange")
def _(c, start, end=None, step=1, dtype=None, device=None):
    start, end = (0, start) if end is None else (start, end)
    is_whole = dtype is None and not any(isinstance(v, float) for v in (start, end, step))
    return f"weft_arange(g, {'WEFT_I64' if is_whole else real_of(dtype)}, {number(start)}, {number(end)}, {number(step)})"


@maps("linspace")
def _(c, start, end, steps, dtype=None, device=None):
    refuse(torch.is_tensor(start) or torch.is_tensor(end), "ends that are tensors")
    return f"weft_linspace(g, {real_of(dtype)}, {number(start)}, {number(end)}, {steps})"


@maps("eye")
def _(c, n, m=None, dtype=None, device=None, requires_grad=False, layout=None):
    return f"weft_eye(g, real, {n}, {n if m is None else m})"


@maps("full")
def _(c, size, value, dtype=None, device=None):
    return f"weft_constant(g, real, {len(size)}, {numbers(size)}, {number(value)})"


# ---- elements by index ----

@maps("gather")
def _(c, x, dim, ids, sparse_grad=False):
    refuse(ids.ndim != x.ndim and ids.numel() == 0, OTHER_AXES)
    return f"weft_gather({c(x)}, {axis(x, dim)}, {c(ids)})"


@maps("take_along_dim")
def _(c, x, ids, dim=None):
    refuse((ids < 0).any(), "ids below 0")
    if dim is None:
        return f"weft_take_along_axis(weft_flatten({c(x)}, 0), weft_flatten({c(ids)}, 0), 0)"
    return f"weft_take_along_axis({c(x)}, {c(ids)}, {dim})"


@maps("index_select")
def _(c, x, dim, ids):
    return f"weft_index_select({c(x)}, {axis(x, dim)}, {c(ids)})"


@maps("index_add")
def _(c, x, dim, ids, source, alpha=1):
    return f"weft_index_add({c(x)}, {axis(x, dim)}, {c(ids)}, {scaled(c(source), alpha)})"


REDUCTIONS = "sum prod mean amax amin".split()


@maps(*(f"{f}.{how}" for f in ("scatter_reduce", "index_reduce") for how in REDUCTIONS if f[0] == "s" or how != "sum"))
def _(c, x, dim, ids, src, reduce, include_self=True, name=None):
    return (f"weft_{name}({c(x)}, {axis(x, dim)}, {c(ids)}, {c(src)}, WEFT_SCATTER_{reduce.upper()}, "
            f"{flag(include_self)})")


def indices(c, x, index):
    """n, indices of weft_index."""
    index = list(index) if isinstance(index, (tuple, list)) and not all(isinstance(i, int) for i in index) else [index]
    at = [k for k, i in enumerate(index) if i is Ellipsis]
    if at:
        index[at[0]:at[0] + 1] = [slice(None)] * (x.ndim - len(index) + 1)
    said = []
    for i in index:
        refuse(isinstance(i, int) or isinstance(i, slice) and i != slice(None), "indexing by numbers and slices")
        refuse(torch.is_tensor(i) and i.dtype == torch.bool and len(index) > 1, "a mask beside other indices")
        said.append("NULL" if isinstance(i, slice) else c(i) if torch.is_tensor(i) else
                    f"weft_constant_tensor(g, WEFT_I64, 1, {numbers([len(i)])}, {numbers(i)})")
    return f"{len(said)}, (weft_value *[]){{{', '.join(said)}}}"


@maps("__getitem__")
def _(c, x, index):
    refuse(torch.is_tensor(index) and index.dtype == torch.bool, "a shape that depends on the data")
    text = c(x)
    return f"weft_index({text}, {indices(c, x, index)})"


@maps("index_put")
def _(c, x, index, values, accumulate=False):
    text = c(x)
    return f"weft_index_put({text}, {indices(c, x, index)}, {c(values)}, {flag(accumulate)})"


@maps("scatter", "scatter_add")
def _(c, x, dim, ids, src, reduce=None, name=None):
    refuse(reduce, "scatter with another reduction than the sum")
    return f"weft_{name}({c(x)}, {axis(x, dim)}, {c(ids)}, {c.of(src, x)})"


@maps("sort")
def _(c, x, dim=-1, descending=False, stable=None):
    return f"weft_sort({c(x)}, {axis(x, dim)}, {flag(descending)}, &out[1])"


@maps("argsort")
def _(c, x, dim=-1, descending=False, stable=None):
    return f"weft_argsort({c(x)}, {axis(x, dim)}, {flag(descending)})"


@maps("topk")
def _(c, x, k, dim=-1, largest=True, sorted=True):
    refuse(not sorted, "an unspecified order")
    return f"weft_topk({c(x)}, {k}, {axis(x, dim)}, {flag(largest)}, &out[1])"


@maps("nn.functional.embedding")
def _(c, weight, ids, **more):
    refuse(any(more.values()), "embedding with " + ", ".join(more))
    return f"weft_embedding_op({c(weight)}, {c(ids)})"


# ---- linear algebra, attention ----

@maps("matmul", "__rmatmul__", "mm", "bmm", "mv", "dot")
def _(c, a, b, name=None):
    a, b = (b, a) if name == "__rmatmul__" else (a, b)
    left = f"weft_unsqueeze({c(a)}, 0)" if a.ndim == 1 else c(a)
    right = f"weft_unsqueeze({c(b)}, 1)" if b.ndim == 1 else c(b)
    text = f"weft_matmul({left}, {right}, false, false)"
    text = f"weft_squeeze({text}, -1)" if b.ndim == 1 else text
    return f"weft_squeeze({text}, {-1 if b.ndim == 1 else -2})" if a.ndim == 1 else text


@maps("einsum")
def _(c, tensors, equation):
    return f'weft_einsum("{equation}", {c.list(tensors)})'


@maps("nn.functional.linear")
def _(c, x, w, b=None):
    refuse(w.ndim != 2, "a weight that is a row")
    return f"weft_linear_op({c(x)}, {c(w)}, {c.maybe(b)})"


@maps("nn.functional.scaled_dot_product_attention")
def _(c, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    refuse(dropout_p, RANDOM)
    refuse(k.ndim != q.ndim or v.ndim != q.ndim, "operands of attention that broadcast")
    lift = (lambda t: f"weft_unsqueeze({c(t)}, 0)") if q.ndim == 3 else c
    mask = None if attn_mask is None else c(attn_mask)
    said = options("weft_attention_options", causal="true" if is_causal else None, mask=mask,
                   scale=None if scale is None else number(scale))
    text = f"weft_attention({lift(q)}, {lift(k)}, {lift(v)}, {said})"
    return f"weft_squeeze({text}, 0)" if q.ndim == 3 else text


# ---- images ----

def window(n, x, w, stride=1, padding=0, dilation=1, groups=1, output_padding=0):
    if padding == "same":
        sizes = [d * (k - 1) for d, k in zip(pair(dilation, n), w.shape[2:])]
        refuse(any(s % 2 for s in sizes), "pads that differ from side to side")
        padding = [s // 2 for s in sizes]
    padding = 0 if padding == "valid" else padding
    given = {"stride": (stride, 1), "pad": (padding, 0), "dilation": (dilation, 1), "output_padding": (output_padding, 0)}
    said = {k: braces(pair(v, n)) for k, (v, usual) in given.items() if pair(v, n) != [usual] * n}
    return options("weft_window", groups=groups if groups != 1 else None, **said)


for dims in 1, 2, 3:
    def _(c, x, w, b=None, stride=1, padding=0, dilation=1, groups=1, _n=dims):
        refuse(x.ndim == _n + 1, UNBATCHED)
        return f"weft_conv{_n}d_op({c(x)}, {c(w)}, {c.maybe(b)}, {window(_n, x, w, stride, padding, dilation, groups)})"
    MAP[f"nn.functional.conv{dims}d"] = _

    def _(c, x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, _n=dims):
        refuse(x.ndim == _n + 1, UNBATCHED)
        w_text = window(_n, x, w, stride, padding, dilation, groups, output_padding)
        return f"weft_conv_transpose{_n}d_op({c(x)}, {c(w)}, {c.maybe(b)}, {w_text})"
    MAP[f"nn.functional.conv_transpose{dims}d"] = _

    def _(c, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False, _n=dims):
        refuse(x.ndim == _n + 1, UNBATCHED)
        stride = kernel_size if stride is None or stride == () else stride
        said = options("weft_pool", kernel=braces(pair(kernel_size, _n)), stride=braces(pair(stride, _n)),
                       pad=braces(pair(padding, _n)), dilation=braces(pair(dilation, _n)),
                       ceil_mode="true" if ceil_mode else None)
        return f"weft_max_pool{_n}d({c(x)}, {said})"
    MAP[f"nn.functional.max_pool{dims}d"] = _

    def _(c, x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, _n=dims):
        refuse(x.ndim == _n + 1, UNBATCHED)
        refuse(divisor_override is not None and divisor_override < 0, "a divisor below 0")
        stride = kernel_size if stride is None or stride == () else stride
        said = options("weft_pool", kernel=braces(pair(kernel_size, _n)), stride=braces(pair(stride, _n)),
                       pad=braces(pair(padding, _n)), ceil_mode="true" if ceil_mode else None,
                       exclude_pad=None if count_include_pad else "true", divisor=divisor_override)
        return f"weft_avg_pool{_n}d({c(x)}, {said})"
    MAP[f"nn.functional.avg_pool{dims}d"] = _

    for kind in "avg", "max":
        def _(c, x, output_size, return_indices=False, _n=dims, _f=kind):
            refuse(x.ndim == _n + 1, UNBATCHED)
            size = [s or l for s, l in zip(pair(output_size, _n), x.shape[2:])]
            return f"weft_adaptive_{_f}_pool{_n}d({c(x)}, {', '.join(map(str, size))})"
        MAP[f"nn.functional.adaptive_{kind}_pool{dims}d"] = _


@maps("nn.functional.interpolate.nearest", "nn.functional.interpolate.nearest-exact", "nn.functional.interpolate.linear",
      "nn.functional.interpolate.bilinear", "nn.functional.interpolate.bicubic", "nn.functional.interpolate.trilinear",
      "nn.functional.upsample_nearest", "nn.functional.upsample_bilinear")
def _(c, x, size=None, scale_factor=None, mode=None, align_corners=None, recompute_scale_factor=None, name=None):
    n = x.ndim - 2
    if name.startswith("nn.functional.upsample"):
        mode, align_corners = name.split("_")[1], name.endswith("bilinear")
    modes = {"nearest": None, "nearest-exact": "WEFT_INTERPOLATE_NEAREST_EXACT", "linear": "WEFT_INTERPOLATE_BILINEAR", "bilinear": "WEFT_INTERPOLATE_BILINEAR", "trilinear": "WEFT_INTERPOLATE_BILINEAR",
             "bicubic": "WEFT_INTERPOLATE_BICUBIC"}
    if recompute_scale_factor:
        size, scale_factor = [math.floor(l * s) for l, s in zip(x.shape[2:], pair(scale_factor, n))], None
    said = options("weft_interpolation", size=None if size is None else braces(pair(size, n)),
                   scale=None if scale_factor is None else braces(pair(scale_factor, n)), mode=modes[mode],
                   align_corners="true" if align_corners else None)
    return f"weft_interpolate({c(x)}, {said})"


@maps("nn.functional.grid_sample")
def _(c, x, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    said = options("weft_grid_options", mode=None if mode == "bilinear" else f"WEFT_GRID_{mode.upper()}",
                   padding=None if padding_mode == "zeros" else f"WEFT_GRID_{padding_mode.upper()}",
                   align_corners="true" if align_corners else None)
    return f"weft_grid_sample({c(x)}, {c(grid)}, {said})"


@maps("nn.functional.unfold")
def _(c, x, kernel_size, dilation=1, padding=0, stride=1):
    refuse(x.ndim == 3, UNBATCHED)
    said = options("weft_window", stride=braces(pair(stride, 2)), pad=braces(pair(padding, 2)),
                   dilation=braces(pair(dilation, 2)))
    return f"weft_unfold({c(x)}, AXES({', '.join(map(str, pair(kernel_size, 2)))}), {said})"


@maps("nn.functional.pixel_shuffle")
def _(c, x, upscale_factor):
    return f"weft_pixel_shuffle({c(x)}, {upscale_factor})"


@maps("nn.functional.pixel_unshuffle")
def _(c, x, downscale_factor):
    return f"weft_pixel_unshuffle({c(x)}, {downscale_factor})"


# ---- norms ----

@maps("softmax", "log_softmax")
def _(c, x, dim, dtype=None, name=None):
    return f"weft_{name}({c(x)}, {axis(x, dim)})"


def eps_of(eps):
    refuse(eps is not None and eps < 0, "an eps below 0")
    return "0" if eps is None else number(eps)


@maps("nn.functional.layer_norm")
def _(c, x, shape, weight=None, bias=None, eps=1e-5):
    refuse(weight is None and len(shape) > 1, "several axes without a weight")
    return f"weft_layer_norm_op({c(x)}, {c.maybe(weight)}, {c.maybe(bias)}, {eps_of(eps)})"


@maps("nn.functional.rms_norm")
def _(c, x, shape, weight=None, eps=None):
    refuse(weight is None and len(shape) > 1, "several axes without a weight")
    return f"weft_rms_norm_op({c(x)}, {c.maybe(weight)}, {eps_of(eps)})"


@maps("nn.functional.group_norm")
def _(c, x, groups, weight=None, bias=None, eps=1e-5):
    return f"weft_group_norm_op({c(x)}, {groups}, {c.maybe(weight)}, {c.maybe(bias)}, {eps_of(eps)})"


@maps("nn.functional.instance_norm")
def _(c, x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    refuse(not use_input_stats, "instance_norm by running statistics")
    return f"weft_instance_norm_op({c(x)}, {c.maybe(weight)}, {c.maybe(bias)}, {eps_of(eps)})"


@maps("nn.functional.batch_norm")
def _(c, x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    refuse(x.ndim == 1, UNBATCHED)
    affine = f"{c.maybe(weight)}, {c.maybe(bias)}, {eps_of(eps)}"
    if training:
        return f"weft_batch_norm_op({c(x)}, {affine}, NULL, NULL)"
    return f"weft_batch_norm_eval_op({c(x)}, {c(mean)}, {c(var)}, {affine})"


@maps("nn.functional.normalize")
def _(c, x, p=2.0, dim=1, eps=1e-12):
    refuse(p != 2, "normalize by another norm than 2")
    return f"weft_normalize({c(x)}, {axis(x, dim)}, {eps_of(eps)})"


@maps("nn.functional.cosine_similarity")
def _(c, a, b, dim=1, eps=1e-8):
    return f"weft_cosine_similarity({c(a)}, {c(b)}, {axis(a, dim)}, {eps_of(eps)})"


# ---- losses ----

REDUCTIONS = {"mean": None, "sum": "WEFT_LOSS_SUM", "none": "WEFT_LOSS_NONE", "batchmean": "WEFT_LOSS_BATCHMEAN"}


def loss(reduction="mean", **given):
    return options("weft_loss", reduction=REDUCTIONS[reduction], **given)


def unless(v, usual):
    """A number that is not the default; WEFT_ZERO for 0."""
    return None if v == usual else "WEFT_ZERO" if v == 0 else number(v)


@maps("nn.functional.cross_entropy")
def _(c, x, t, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    refuse(x.ndim == 1, UNBATCHED)
    return f"weft_cross_entropy({c(x)}, {c(t)}, " + loss(
        reduction, weight=None if weight is None else c(weight),
        ignore_index=None if ignore_index == -100 else f"&(int64_t){{{ignore_index}}}",
        label_smoothing=label_smoothing or None) + ")"


@maps("nn.functional.nll_loss")
def _(c, x, t, weight=None, ignore_index=-100, reduction="mean"):
    refuse(x.ndim == 1, UNBATCHED)
    return f"weft_nll({c(x)}, {c(t)}, " + loss(
        reduction, weight=None if weight is None else c(weight),
        ignore_index=None if ignore_index == -100 else f"&(int64_t){{{ignore_index}}}") + ")"


@maps("nn.functional.binary_cross_entropy_with_logits")
def _(c, x, t, weight=None, reduction="mean", pos_weight=None):
    return f"weft_bce_with_logits({c(x)}, {c(t)}, " + loss(
        reduction, weight=None if weight is None else c(weight), pos_weight=None if pos_weight is None else c(pos_weight)) + ")"


@maps("nn.functional.binary_cross_entropy")
def _(c, x, t, weight=None, reduction="mean"):
    return f"weft_bce({c(x)}, {c(t)}, {loss(reduction, weight=None if weight is None else c(weight))})"


@maps("nn.functional.mse_loss")
def _(c, x, t, reduction="mean"):
    return f"weft_mse({c(x)}, {c(t)}, {loss(reduction)})"


@maps("nn.functional.l1_loss")
def _(c, x, t, reduction="mean"):
    return f"weft_l1({c(x)}, {c(t)}, {loss(reduction)})"


@maps("nn.functional.smooth_l1_loss")
def _(c, x, t, reduction="mean", beta=1.0):
    return f"weft_smooth_l1({c(x)}, {c(t)}, {loss(reduction, beta=unless(beta, 1))})"


@maps("nn.functional.huber_loss")
def _(c, x, t, reduction="mean", delta=1.0):
    return f"weft_huber({c(x)}, {c(t)}, {loss(reduction, delta=unless(delta, 1))})"


@maps("nn.functional.kl_div")
def _(c, x, t, reduction="mean", log_target=False):
    return f"weft_kl_div({c(x)}, {c(t)}, {loss(reduction, log_target='true' if log_target else None)})"


@maps("nn.functional.hinge_embedding_loss")
def _(c, x, t, margin=1.0, reduction="mean"):
    return f"weft_hinge_embedding({c(x)}, {c(t)}, {loss(reduction, margin=unless(margin, 1))})"


@maps("nn.functional.margin_ranking_loss")
def _(c, a, b, t, margin=0.0, reduction="mean"):
    return f"weft_margin_ranking({c(a)}, {c(b)}, {c(t)}, {loss(reduction, margin=number(margin) if margin else None)})"


@maps("nn.functional.cosine_embedding_loss")
def _(c, a, b, t, margin=0.0, reduction="mean"):
    refuse(a.ndim == 1, UNBATCHED)
    return f"weft_cosine_embedding({c(a)}, {c(b)}, {c(t)}, {loss(reduction, margin=number(margin) if margin else None)})"


@maps("nn.functional.triplet_margin_loss")
def _(c, a, p, n, margin=1.0, swap=False, reduction="mean"):
    said = loss(reduction, margin=unless(margin, 1), swap="true" if swap else None)
    return f"weft_triplet_margin({c(a)}, {c(p)}, {c(n)}, {said})"


# ---- PyTorch's answers ----

def fixed(t, salt):
    """What results are multiplied with, as `fixed` in test_opinfo.c."""
    i = torch.arange(t.numel())
    return ((((i * 37 + salt * 29 + 11) % 129) - 64) / 64).to(t.dtype).reshape(t.shape)


def cut(t):
    """To 16 bits of mantissa, which f32 holds; a leaf of its own, row-major."""
    with torch.no_grad():
        if t.is_floating_point():
            mantissa, exponent = torch.frexp(t)
            v = torch.ldexp(torch.round(mantissa * 65536) / 65536, exponent)
        else:
            v = t
        v = v.detach().clone(memory_format=torch.contiguous_format)
    return v.requires_grad_(t.requires_grad)


def again(s, f):
    """The sample with f of each tensor, the same one for the same tensor."""
    made = {}

    def once(t):
        if not torch.is_tensor(t):
            return t
        if id(t) not in made:
            made[id(t)] = (f(t), t)
        return made[id(t)][0]
    return s.transform(once)


def to_f32(t):
    return (t.detach().float() if t.dtype == torch.float64 else t.detach().clone()).requires_grad_(t.requires_grad)


def nudged(t):
    """Each element one rounding of f32 away, up or down by turns."""
    if t.dtype != torch.float64:
        return t.detach().clone()
    signs = 1 - 2 * (torch.arange(t.numel()) * 7 % 5 % 2).double().reshape(t.shape)
    return (t.detach() * (1 + 2.0 ** -24 * signs)).requires_grad_(t.requires_grad)


def results(function, tensors, n_out, orders):
    """Lists y, g, h and z. h is by the fixed numbers of L too: those of linear functions are not all 0 then."""
    y = function()
    y = [t for t in (y if isinstance(y, (tuple, list)) else [y])][:n_out]
    by, lists = [t for t in tensors if t.requires_grad and t.numel()], [y]
    last, reals = y, [t for t in y if counts(t)]
    for order in range(orders if by and any(t.requires_grad and t.numel() for t in y) else 0):
        factors = [fixed(t, 50 * order + i).requires_grad_(order == 0) for i, t in enumerate(last) if counts(t)]
        total = sum((t * f).sum() for t, f in zip((t for t in last if counts(t)), factors))
        last = gradients(total, by + (reals if order else []))
        lists += [last[:len(by)], last[len(by):]] if order else [last]
        by = by + factors
    return lists


def counts(t):
    """Whether it has numbers that a loss can be made of."""
    return t.is_floating_point() and t.numel() > 0


def gradients(total, by):
    """0 by what it does not depend on, or what has no gradient."""
    known = [t for t in by if t.requires_grad]
    got = [None] * len(known)
    if total.requires_grad:
        got = torch.autograd.grad(total, known, create_graph=True, allow_unused=True, materialize_grads=True)
    found = {id(t): v for t, v in zip(known, got) if v is not None}
    return [torch.zeros_like(t) if v is None or v._is_zerotensor() else v for t in by for v in [found.get(id(t))]]


def distance(narrow, wide):
    """Of f32's numbers from f64's, as a part of the largest; inf where one is finite and the other is not."""
    a, b = narrow.detach().double().flatten(), wide.detach().double().flatten()
    finite = torch.isfinite(b)
    if not torch.equal(torch.isfinite(a), finite):
        return math.inf
    most = b[finite].abs().max().item() if finite.any() else 0
    off = (a - b)[finite].abs().max().item() if finite.any() else 0
    return off / most if most else off


def show(name, t, note):
    digits = 17 if note in ("-", "d") else 12
    values = (f"{v:.{digits}g}" if t.is_floating_point() else str(int(v)) for v in t.detach().flatten().tolist())
    shape = ",".join(map(str, t.shape))
    return f"{name} {TYPES[t.dtype]}[{shape}] {note} " + " ".join(values)


class Suite:
    def __init__(self, seed, limits):
        self.seed, (self.most_samples, self.most_numbers, self.most_alike, self.most_empty) = seed, limits
        self.rows, self.lines, self.refused = [], [], Counter()

    def add(self, name, call, statement, lists, narrow):
        number = len(self.rows)
        n_out, orders = len(lists[0]), min(len(lists) - 1, 2)
        self.rows.append(f'ROW({number}, "{name}", {n_out}, {orders}, {statement})')
        lines = [f"row {number}"]
        for i, t in enumerate(call.tensors):
            lines.append(show(f"in{i}", t, "d" if t.requires_grad else "-"))
        for letter, wide, close in zip("yghz", lists, narrow):
            lines += [show(f"{letter}{i}", t, f"{n:.1e}") for i, (t, n) in enumerate(zip(wide, close))]
        self.lines += lines


def statement_of(name, function, call, s):
    args = [s.input, *s.args]
    given = {"name": name} if "name" in function.__code__.co_varnames[:function.__code__.co_argcount] else {}
    try:
        text = function(call, *args, **s.kwargs, **given)
    except TypeError as error:
        raise Refused("arguments that Weft does not have: " + str(error).split("argument")[-1].strip()) from error
    return text if text.startswith(("(void)", "out[")) else f"out[0] = {text}"


def outputs_of(statement, y):
    """How many of PyTorch's results Weft gives."""
    count = len(y) if isinstance(y, (tuple, list)) else 1
    return count if statement.startswith("(void)") or "&out[" in statement else 1


def prepare(op, name, function, s, seen, most_alike):
    """(call, statement, lists, what rounding to f32 changes in each) of a sample."""
    s = again(s, cut)
    call = Call()
    statement = statement_of(name, function, call, s)
    kind = statement, tuple((t.shape, t.dtype, t.requires_grad) for t in call.tensors)
    refuse(seen[kind] >= most_alike, "as another one, with other numbers")
    seen[kind] += 1
    with torch.no_grad():
        y = op(s.input, *s.args, **s.kwargs)
    n_out = outputs_of(statement, y)
    tensors = list(y)[:n_out] if isinstance(y, (tuple, list)) else [y]
    refuse(any(t.numel() > MOST_ELEMENTS for t in [*call.tensors, *tensors]), LARGE)
    refuse(any(t.dtype not in TYPES for t in tensors), "a type that Weft does not have")
    orders = 2 if op.supports_gradgrad else 1

    def run(s, tensors):
        return results(lambda: op(s.input, *s.args, **s.kwargs), tensors, n_out, orders if op.supports_autograd else 0)

    def changed(change, dtype):
        """The lists of the sample with changed operands."""
        made = {}

        def once(t):
            made[id(t)] = change(t)
            return made[id(t)]
        other = again(s, once)
        other.kwargs = {k: dtype if v == torch.float64 else v for k, v in other.kwargs.items()}
        return run(other, [made[id(t)] for t in call.tensors])
    wide = run(s, call.tensors)
    near = [changed(to_f32, torch.float32), changed(nudged, torch.float64)]
    return call, statement, wide, [[max(distance(a, t), distance(b, t)) for t, a, b in zip(*part)] for part in zip(wide, *near)]


def spread(items, n):
    """n of them, at equal distances."""
    return items if len(items) <= n else [items[i * len(items) // n] for i in range(n)]


def seeded(name, seed):
    seed += sum(map(ord, name))
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def samples_of(op, name, seed):
    seeded(name, seed)
    dtype = torch.float64 if torch.float64 in op.dtypes else torch.int64
    return list(op.sample_inputs("cpu", dtype, requires_grad=dtype == torch.float64 and op.supports_autograd))


def add_samples(suite, op, name, samples):
    """samples: pairs of a sample and the function that says it in C, with the op that computes it if it is not `op`."""
    ready, seen, alike = [], Counter(), min(suite.most_alike, 1 if len(samples) > suite.most_samples else 10 ** 6)
    for s, function, *own in samples:
        try:
            ready.append(prepare(own[0] if own else op, op.name, function, s, seen, alike))
        except Refused as reason:
            suite.refused[str(reason)] += 1
    room, kept = suite.most_numbers, 0
    whole = [made for made in ready if all(t.numel() for t in [*made[0].tensors, *made[2][0]])]
    empty = [made for made in ready if not all(t.numel() for t in [*made[0].tensors, *made[2][0]])]
    for made in spread(whole, suite.most_samples) + spread(empty, suite.most_empty):
        count = sum(t.numel() for part in made[2][:3] for t in part)  # those by results come on top
        if count <= room:
            suite.add(name, *made)
            room, kept = room - count, kept + 1
    suite.refused[MORE] += len(ready) - kept
    return kept


# ---- recurrent layers: modules, whose parameters become operands ----

class AsOp:
    """A module as an OpInfo: called with x, its states and its parameters."""
    supports_autograd, supports_gradgrad = True, True

    def __init__(self, module, states):
        self.module, self.states = module, states
        self.names = [n for n, _ in module.named_parameters()]

    def __call__(self, x, *more):
        states, parameters = more[:self.states], more[self.states:]
        state = [states if self.states == 2 else states[0]] if states else []
        return torch.func.functional_call(self.module, dict(zip(self.names, parameters)), (x, *state))


def recurrent(kind):
    def say(c, x, *more, net=None):
        refuse(net.get("proj_size"), "projections of an lstm")
        said = fields(kind=f"'{kind}'", layers=net["layers"], states=net["states"], bias="true" if net["bias"] else None,
                      both="true" if net["bidirectional"] else None, relu="true" if net["relu"] else None)
        for t in x, *more:
            c(t)
        return f"recurrent(in, &(net){{{said}}})"
    return say


MODULES = {"nn.LSTM": "l", "nn.LSTMCell": "l", "nn.GRU": "g", "nn.GRUCell": "g", "nn.RNN": "r", "nn.RNNCell": "r"}


def add_module(suite, info):
    seeded(info.name, suite.seed)
    samples = []
    for given in info.module_inputs_func(info, "cpu", torch.float64, True, True):
        made, forward = given.constructor_input, given.forward_input
        states = [t for a in forward.args[1:] for t in (a if isinstance(a, tuple) else [a])]
        module = info.module_cls(*made.args, **{"dtype": torch.float64, **made.kwargs})
        net = {"layers": 1, "bias": True, "bidirectional": False, **made.kwargs, "states": len(states)}
        net |= {"layers": net.get("num_layers", 1), "relu": net.get("nonlinearity") == "relu"}
        s = torch.testing._internal.opinfo.core.SampleInput(
            forward.args[0], args=(*states, *(p.detach().requires_grad_() for p in module.parameters())))
        samples.append((s, lambda c, *args, net=net: recurrent(MODULES[info.name])(c, *args, net=net), AsOp(module, len(states))))
    add_samples(suite, info, info.name, samples)


def main():
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--seed", type=int, default=0)
    given.add_argument("--all", action="store_true", help="keep every sample")
    given = given.parse_args()
    suite, met = Suite(given.seed, WHOLE if given.all else PART), set()
    for info in module_db:
        if info.name in MODULES:
            add_module(suite, info)
    for op in op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if name in MAP:
            add_samples(suite, op, name, [(s, MAP[name]) for s in samples_of(op, name, suite.seed)])
            met.add(name)
    missing = set(MAP) - met
    if missing:
        raise SystemExit(f"PyTorch has no OpInfo {', '.join(sorted(missing))}")
    head = "/* made by make_opinfo.py: ROW(number, OpInfo, results, orders of gradients, code), REFUSED(count, reason) */\n"
    refused = [f'REFUSED({n}, "{reason}")' for reason, n in sorted(suite.refused.items()) if n]
    (HERE / "opinfo.h").write_text(head + "\n".join(suite.rows + refused) + "\n")
    with gzip.GzipFile(HERE / "opinfo.txt.gz", "wb", 9, mtime=0) as file:
        file.write(("\n".join(suite.lines) + "\n").encode())
    print(f"{len(met)} OpInfos and {len(MODULES)} modules, {len(suite.rows)} samples")


if __name__ == "__main__":
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the others can be differentiated once
        main()
