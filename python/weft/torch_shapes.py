"""ATen ops that reduce or change shapes, constants and random numbers, as calls of Weft's builders (torch_ops.py has the table)."""
from . import _ops
from ._build import BATCH
from ._lib import Error
from .model import Value
from .torch_ops import as_value, cast, op


# ---- reductions ----

def axes_of(axes):
    """None: all axes."""
    return None if axes is None or (isinstance(axes, (list, tuple)) and not axes) else list(axes) if isinstance(axes, (list, tuple)) else [axes]


@op("sum.default", "sum.dim_IntList")
def sum_(c, x, axes=None, keep=False, *, dtype=None):
    x = cast(x, c.dtype) if c.result.is_floating_point() else x
    return cast(_ops.sum(x, axes_of(axes), keep), c.dtype) if x.ndim else cast(x, c.dtype)


@op("mean.default", "mean.dim")
def mean(c, x, axes=None, keep=False, *, dtype=None):
    return _ops.mean(cast(x, c.dtype), axes_of(axes), keep) if x.ndim else cast(x, c.dtype)


def _reduced(function):
    return lambda c, x, axes=None, keep=False, **given: function(x, axes_of(axes), keep)


for _names, _function in {("amax.default", "max.default"): _ops.amax, ("amin.default", "min.default"): _ops.amin, ("any.default", "any.dim", "any.dims"): _ops.any,
                          ("all.default", "all.dim", "all.dims"): _ops.all, ("logsumexp.default",): _ops.logsumexp}.items():
    op(*_names)(_reduced(_function))


@op("prod.default", "prod.dim_int")
def prod(c, x, axis=None, keep=False, *, dtype=None):
    return cast(_ops.prod(cast(x, c.dtype), axes_of(axis), keep), c.dtype)


@op("argmax.default", "argmin.default")
def argmax(c, x, axis=None, keep=False):
    function = _ops.argmax if "argmax" in c.name else _ops.argmin
    return function(x, axis, keep) if axis is not None else function(_ops.reshape(x, [-1]), 0, False)


@op("max.dim")
def max_(c, x, axis, keep=False):
    return _ops.max(x, axis, keep)


@op("min.dim")
def min_(c, x, axis, keep=False):
    return _ops.min(x, axis, keep)


def correction_of(correction, unbiased):
    return (1 if unbiased else 0) if isinstance(unbiased, bool) else 1 if correction is None else correction


@op("var.correction", "var.dim")
def var(c, x, axes=None, unbiased=None, keepdim=False, *, correction=None):
    return _ops.var(x, axes_of(axes), correction=correction_of(correction, unbiased), keep=keepdim)


@op("std.correction", "std.dim")
def std(c, x, axes=None, unbiased=None, keepdim=False, *, correction=None):
    return _ops.std(x, axes_of(axes), correction=correction_of(correction, unbiased), keep=keepdim)


@op("var_mean.correction", "var_mean.dim")
def var_mean(c, x, axes=None, unbiased=None, keepdim=False, *, correction=None):
    return _ops.var(x, axes_of(axes), correction=correction_of(correction, unbiased), keep=keepdim), _ops.mean(x, axes_of(axes), keepdim)


@op("linalg_vector_norm.default")
def vector_norm(c, x, p=2, axes=None, keep=False, *, dtype=None):
    return _ops.vector_norm(cast(x, c.dtype), p, axes_of(axes), keep)


@op("norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype")
def norm(c, x, p=2, axes=None, keep=False, **given):
    return _ops.vector_norm(cast(x, c.dtype), 2 if p is None else p, axes_of(axes), keep)


@op("cumsum.default")
def cumsum(c, x, axis, *, dtype=None):
    return cast(_ops.cumsum(cast(x, c.dtype) if c.result.is_floating_point() else x, axis), c.dtype)


@op("cumprod.default")
def cumprod(c, x, axis, *, dtype=None):
    return cast(_ops.cumprod(cast(x, c.dtype) if c.result.is_floating_point() else x, axis), c.dtype)


# ---- shapes ----

def reshaped(c, x, shape):
    """x in the shape of the result. The one length that is neither a number nor the batch becomes -1."""
    lengths = []
    for n in shape:
        try:
            lengths.append(c.builder.length(n, c))
        except Error:
            if -1 in lengths:
                raise
            lengths.append(-1)
    return _ops.reshape(x, lengths)


@op("view.default", "_unsafe_view.default", "reshape.default", "view_copy.default", "flatten.using_ints", "unflatten.int", "squeeze.default", "squeeze.dim", "squeeze.dims",
    "_reshape_alias.default", "view_as.default", "reshape_as.default")
def view(c, x, *shape, **given):
    return reshaped(c, x, c.result.shape)


@op("view.dtype")
def view_dtype(c, x, dtype):
    if cast(x, c.dtype) is x:
        return x
    raise c.refused("the bits of one type as another", "to(dtype)")


@op("unsqueeze.default")
def unsqueeze(c, x, axis):
    return _ops.unsqueeze(x, axis)


@op("permute.default")
def permute(c, x, axes):
    return _ops.permute(x, axes)


@op("transpose.int", "swapaxes.default")
def transpose(c, x, a, b):
    return _ops.transpose(x, a, b) if x.ndim > 1 else x


@op("t.default", "numpy_T.default", "mT.default", "adjoint.default", "matrix_H.default")
def t(c, x):
    return _ops.transpose(x, -1, -2) if x.ndim > 1 else x


@op("movedim.int", "movedim.intlist")
def movedim(c, x, source, target):
    source, target = (s if isinstance(s, list) else [s] for s in (source, target))
    places = {b % x.ndim: a % x.ndim for a, b in zip(source, target)}
    rest = iter([i for i in range(x.ndim) if i not in places.values()])
    return _ops.permute(x, [places[i] if i in places else next(rest) for i in range(x.ndim)])


@op("expand.default", "expand_copy.default", "expand_as.default", "broadcast_to.default")
def expand(c, x, shape=None, implicit=False):
    if x.ndim == 0 and len(c.result.shape) == 0:
        return x
    return x if not isinstance(shape, Value) and list(x.shape) == c.shape else _ops.broadcast_to(x, c.shape)


@op("cat.default", "concat.default", raw=True)
def cat(c, values, axis=0):
    values = [cast(c.values(v), c.dtype) for v in values if isinstance(v, Value) or v.numel()]
    return values[0] if len(values) == 1 else _ops.concat(values, axis)


@op("stack.default")
def stack(c, values, axis=0):
    axis %= len(c.result.shape)  # negative ones count from the end of the result
    return cat(c, [_ops.unsqueeze(v, axis) for v in values], axis)


def bounds(c, length, start, end):
    """(start, end) of a slice within a length, as PyTorch clips them; None: to the end."""
    start = 0 if start is None else start
    if not isinstance(length, int):
        return start, None if end is None or not isinstance(end, int) or end >= 2**62 else end
    start = max(0, start + length) if start < 0 else min(start, length)
    end = length if end is None or not isinstance(end, int) else max(0, end + length) if end < 0 else min(end, length)
    return start, None if end == length else end


@op("slice.Tensor", "slice_copy.Tensor", "narrow.default")
def slice_(c, x, axis=0, start=None, end=None, step=1):
    if c.name.endswith("narrow.default"):
        end = start + end
    start, end = bounds(c, c.about(0).shape[axis], start, end)
    if step != 1:
        return _ops.strided_slice(x, axis, start, end, step)
    return x if start == 0 and end is None else _ops.slice(x, axis, start, end)


@op("select.int", "select_copy.int")
def select(c, x, axis, at):
    return _ops.squeeze(_ops.slice(x, axis, at, at + 1 if at != -1 else None), axis)


@op("slice_scatter.default")
def slice_scatter(c, x, source, axis=0, start=None, end=None, step=1):
    length = c.about(0).shape[axis]
    start, end = bounds(c, length, start, end)
    source = cast(source, x.dtype)
    if step != 1:
        return scatter_rows(c, x, axis, range(start, length if end is None else end, step), source)
    parts = [_ops.slice(x, axis, 0, start)] if start else []
    parts.append(source)
    if end is not None:
        parts.append(_ops.slice(x, axis, end, None))
    return parts[0] if len(parts) == 1 else _ops.concat(parts, axis)


def scatter_rows(c, x, axis, rows, source):
    """x with the parts of `source` in these places of an axis."""
    import torch
    shape = [1] * x.ndim
    shape[axis % x.ndim] = len(rows)
    ids = as_value(c.builder, torch.tensor(list(rows)).reshape(shape).expand(*source.shape))
    return _ops.scatter(x, axis, ids, source)


@op("select_scatter.default")
def select_scatter(c, x, source, axis, at):
    return slice_scatter(c, x, _ops.unsqueeze(source, axis % x.ndim), axis, at, at + 1 if at != -1 else None)


@op("split.Tensor", "split_with_sizes.default", "split.sizes", "split_with_sizes_copy.default", "chunk.default", "unsafe_split.Tensor", "tensor_split.indices", "tensor_split.sections")
def split(c, x, sizes, axis=0):
    axis %= x.ndim
    sizes = [part.shape[axis] for part in c.node.meta["val"]]
    if len(sizes) == 1:
        return [x]
    if not all(isinstance(n, int) for n in sizes):
        return list(_ops.chunk(x, len(sizes), axis))
    # The last part is made first, as C evaluates arguments: then their gradients become one concat.
    ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
    return [_ops.slice(x, axis, end - size, end) for size, end in reversed(list(zip(sizes, ends)))][::-1]


@op("unbind.int")
def unbind(c, x, axis=0):
    return [select(c, x, axis, i) for i in reversed(range(len(c.node.meta["val"])))][::-1]  # as in split()


@op("repeat.default", "tile.default")
def repeat(c, x, repeats):
    if all(r == 1 for r in repeats):
        return x if len(repeats) <= x.ndim else _ops.reshape(x, [1] * (len(repeats) - x.ndim) + [-1 if n == BATCH else n for n in x.shape])
    if x.ndim == 0 or all(n == 1 for n in list(c.about(0).shape)):
        return _ops.broadcast_to(_ops.reshape(x, [1] * len(c.shape)), c.shape)
    return _ops.tile(x, repeats)


@op("repeat_interleave.self_int")
def repeat_interleave(c, x, repeats, axis=None, *, output_size=None):
    return _ops.repeat_interleave(_ops.reshape(x, [-1]) if axis is None else x, repeats, 0 if axis is None else axis)


@op("roll.default")
def roll(c, x, shifts, axes=()):
    shifts, axes = (s if isinstance(s, list) else [s] for s in (shifts, axes))
    if not axes:
        return reshaped(c, _ops.roll(_ops.reshape(x, [-1]), shifts[0], 0), c.result.shape)
    for shift, axis in zip(shifts, axes):
        x = _ops.roll(x, shift, axis)
    return x


@op("flip.default")
def flip(c, x, axes):
    return _ops.flip(x, axes)


@op("constant_pad_nd.default")
def constant_pad(c, x, pads, value=0):
    return _ops.constant_pad(x, pads, value)


@op("pad.default")
def pad(c, x, pads, mode="constant", value=None):
    if mode == "constant":
        return _ops.constant_pad(x, pads, value or 0)
    return {"reflect": _ops.reflect_pad, "replicate": _ops.replicate_pad, "circular": _ops.circular_pad}[mode](x, pads)


for _name, _pad in {"reflection_pad": _ops.reflect_pad, "replication_pad": _ops.replicate_pad}.items():
    op(*(f"{_name}{n}d.default" for n in (1, 2, 3)))(lambda c, x, pads, function=_pad: function(x, pads))


@op("tril.default")
def tril(c, x, diagonal=0):
    return _ops.tril(x, diagonal)


@op("triu.default")
def triu(c, x, diagonal=0):
    return _ops.triu(x, diagonal)


@op("diagonal.default", "diagonal_copy.default")
def diagonal(c, x, offset=0, a=0, b=1):
    import torch
    a, b = a % x.ndim, b % x.ndim
    rows, columns = c.about(0).shape[a], c.about(0).shape[b]
    count = c.result.shape[-1]
    x = movedim(c, x, [a, b], [-2, -1])
    flat = _ops.reshape(x, [*(-1 if n == BATCH else n for n in c.lengths(c.result.shape[:-1])), rows * columns])
    first = offset if offset >= 0 else -offset * columns
    return _ops.index_select(flat, -1, as_value(c.builder, first + (columns + 1) * torch.arange(count)))


# ---- constants and random numbers ----

@op("full.default", "zeros.default", "ones.default", "full_like.default", "zeros_like.default", "ones_like.default", "new_full.default", "new_zeros.default", "new_ones.default",
    "empty.memory_format", "empty_like.default", "new_empty.default", "empty_permuted.default", "new_empty_strided.default", "fill.Scalar", "zero.default")
def full(c, *given, **more):
    number = 1 if "ones" in c.name else 0
    if "full" in c.name or "fill" in c.name:
        number = more.get("fill_value", given[-1])
    return c.constant(c.dtype, c.shape, number)


@op("fill.Tensor")
def fill(c, x, number):
    return expand(c, cast(number, c.dtype))


@op("scalar_tensor.default")
def scalar_tensor(c, number, **given):
    return c.constant(c.dtype, (), number)


@op("eye.default", "eye.m")
def eye(c, *given, **more):
    rows, columns = c.shape
    if BATCH not in c.shape:
        return _ops.eye(c.graph, c.dtype, rows, columns)
    row, column = (_ops.arange(c.graph, "i64", 0, n, 1) for n in (rows, columns))
    return cast(_ops.equal(_ops.unsqueeze(row, 1), column), c.dtype)


@op("arange.default", "arange.start", "arange.start_step")
def arange(c, *given, **more):
    start, step = 0, 1
    if "start" in c.name:
        start, step = given[0], given[2] if len(given) > 2 else 1
    if step != 1 and c.shape == [BATCH]:
        return cast(_ops.arange(c.graph, "i64", 0, BATCH, 1) * step + start, c.dtype)
    if c.shape == [BATCH]:
        made = _ops.arange(c.graph, c.dtype, 0, BATCH, 1)
        return made if start == 0 else made + start
    return _ops.arange(c.graph, c.dtype, start, start + step * c.shape[0], step)


def shaped_random(c, normal):
    make = _ops.random_normal if normal else _ops.random_uniform
    return cast(make(c.graph, c.shape), c.dtype)


@op("rand.default", "rand_like.default", "rand.generator")
def rand(c, *given, **more):
    return shaped_random(c, False)


@op("randn.default", "randn_like.default", "randn.generator")
def randn(c, *given, **more):
    return shaped_random(c, True)


@op("randint.default", "randint.low", "randint_like.default", "randint_like.low_dtype")
def randint(c, *given, **more):
    numbers = [n for n in given if isinstance(n, int)]
    low, high = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
    return cast(_ops.floor(_ops.random_uniform(c.graph, c.shape, low, high)), c.dtype)


@op("bernoulli.p", "bernoulli.default")
def bernoulli(c, x, p=None):
    chosen = _ops.less(_ops.random_uniform(c.graph, c.shape), c.value(p if p is not None else x, "f32"))
    return cast(chosen, c.dtype)


@op("normal_functional.default", "uniform.default")
def filled(c, x, a=0.0, b=1.0):
    if "normal" in c.name:
        return cast(_ops.random_normal(c.graph, c.shape, a, b), c.dtype)
    return cast(_ops.random_uniform(c.graph, c.shape, a, b), c.dtype)


@op("dropout.default")
def dropout(c, x, p, train):
    return _ops.dropout(x, p) if train and p > 0 else x


@op("native_dropout.default")
def native_dropout(c, x, p, train):
    return (_ops.dropout(x, p) if train and p > 0 else x), None
