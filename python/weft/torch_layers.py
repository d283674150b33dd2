"""ATen ops as calls of Weft's builders, the second half of torch_ops.py's table: products and attention, images, norms,
losses, recurrent layers, elements by index."""
import math

from . import _ops
from ._build import BATCH
from .model import Value
from .torch_ops import OPS, Written, as_value, cast, movedim, op, weft_op


# ---- products ----

@op("linear.default")
def linear(c, x, w, b=None):
    if w.ndim == 1:
        return _ops.sum(x * w, [-1], False) if b is None else _ops.sum(x * w, [-1], False) + b
    return _ops.linear_op(x, w, b)


def product(a, b):
    """a b, where an operand may be a vector."""
    row, column = a.ndim == 1, b.ndim == 1
    if row and column:
        return _ops.sum(a * b, None, False)
    a = _ops.unsqueeze(a, 0) if row else a
    b = _ops.unsqueeze(b, 1) if column else b
    made = _ops.matmul(a, b)
    return _ops.squeeze(made, -2) if row else _ops.squeeze(made, -1) if column else made


@op("matmul.default", "mm.default", "bmm.default", "mv.default", "dot.default", "vdot.default", "inner.default")
def matmul(c, a, b):
    return product(cast(a, c.dtype), cast(b, c.dtype))


@op("outer.default", "ger.default")
def outer(c, a, b):
    return _ops.unsqueeze(a, 1) * _ops.unsqueeze(b, 0)


def scaled(x, factor):
    return x if factor == 1 else x * factor


@op("addmm.default", "addmv.default", "baddbmm.default", "addbmm.default")
def addmm(c, x, a, b, *, beta=1, alpha=1):
    made = scaled(_ops.sum(product(a, b), [0], False) if c.name == "aten.addbmm.default" else product(a, b), alpha)
    return made if beta == 0 else made + scaled(x, beta)


@op("einsum.default")
def einsum(c, equation, operands, path=None):
    return _ops.einsum(equation.replace(" ", ""), operands)


@op("scaled_dot_product_attention.default", raw=True)
def attention(c, q, k, v, mask=None, dropout=0.0, causal=False, *, scale=None, enable_gqa=False):
    q, k, v = (c.values(x) for x in (q, k, v))
    if mask is not None and not causal and is_causal_mask(c, mask, q, k):
        mask, causal = None, True
    if mask is not None and not isinstance(mask, Value) and str(mask.dtype) == "torch.bool" and bool(mask.all()):
        mask = None
    mask = None if mask is None else c.values(mask)
    if mask is not None and mask.dtype not in ("bool", "f32", q.dtype):
        mask = cast(mask, q.dtype)
    if q.ndim != 4 or k.ndim != 4:
        return attention_reshaped(c, q, k, v, mask, dropout, causal, scale)
    return _ops.attention(q, k, v, causal=causal, scale=scale, mask=mask, dropout=dropout or None)


def is_causal_mask(c, mask, q, k):
    """Whether a mask that is known lets row i see keys 0 to i."""
    import torch
    if isinstance(mask, Value) or mask.ndim < 2 or q.ndim != 4:
        return False
    seen = mask if mask.dtype == torch.bool else (mask == 0) | ~(mask < -1e30)
    rows, keys = mask.shape[-2:]
    if mask.dtype != torch.bool and bool(((mask != 0) & ~(mask < -1e30)).any()):
        return False
    return rows > 1 and rows == q.shape[-2] and keys == k.shape[-2] and bool((seen == torch.ones(rows, keys, dtype=torch.bool).tril()).all())


def attention_reshaped(c, q, k, v, mask, dropout, causal, scale):
    """Attention of three axes or more than four."""
    if q.ndim == 3:
        q, k, v = (_ops.unsqueeze(x, 1) for x in (q, k, v))
        mask = _ops.unsqueeze(mask, 1) if mask is not None and mask.ndim == 3 else mask
        return _ops.squeeze(_ops.attention(q, k, v, causal=causal, scale=scale, mask=mask, dropout=dropout or None), 1)
    if q.ndim == 2:
        q, k, v = (_ops.reshape(x, [1, 1, *x.shape]) for x in (q, k, v))
        return _ops.reshape(_ops.attention(q, k, v, causal=causal, scale=scale, mask=mask, dropout=dropout or None), [q.shape[-2], v.shape[-1]])
    return attention_in_parts(c, q, k, v, mask, dropout, causal, scale)


def attention_in_parts(c, q, k, v, mask, dropout, causal, scale):
    import torch
    if q.ndim >= 3 and q.shape[-3] != k.shape[-3]:
        n = q.shape[-3] // k.shape[-3]
        k, v = _ops.repeat_interleave(k, n, k.ndim - 3), _ops.repeat_interleave(v, n, v.ndim - 3)
    scores = _ops.matmul(q * (scale if scale is not None else 1 / math.sqrt(q.shape[-1])), k, False, True)
    if causal:
        mask = as_value(c.builder, torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril())
    if mask is not None:
        scores = _ops.where(mask, scores, c.value(-math.inf, scores.dtype)) if mask.dtype == "bool" else scores + cast(mask, scores.dtype)
    weights = _ops.softmax(scores, -1)
    return _ops.matmul(_ops.dropout(weights, dropout) if dropout else weights, v)


@op("_grouped_mm.default")
def grouped_mm(c, a, b, offsets=None, bias=None, out_dtype=None):
    """Rows of a[T, K] in groups that end at offsets[E], each by its b[E, K, N]: every expert on all rows, times whether they are its own."""
    import torch
    if a.ndim != 2 or b.ndim != 3:
        raise c.refused("a grouped product of these shapes", "experts by masks")
    experts, rows = b.shape[0], a.shape[0]
    at = as_value(c.builder, torch.arange(rows).to(torch.int64)[:, None])
    expert = _ops.sum(_ops.less_equal(_ops.unsqueeze(cast(offsets, "i64"), 0), at), [1], False)
    own = _ops.transpose(_ops.one_hot(expert, experts, a.dtype), 0, 1)
    return _ops.sum(_ops.matmul(_ops.unsqueeze(a, 0) * _ops.unsqueeze(own, 2), b), [0], False)


OPS["transformers.grouped_mm_fallback.default"] = grouped_mm


# ---- convolutions and pools ----

def many(x, n):
    """A number for each of n axes."""
    return [x] * n if isinstance(x, int) else list(x) * n if len(x) == 1 else list(x)


def same_padding(c, x, w, stride, dilation, n):
    """x with the zeros of padding="same", and what is still to be added on both sides alike."""
    total = [d * (k - 1) for d, k in zip(many(dilation, n), w.shape[-n:])]
    if any(t % 2 for t in total):
        x = _ops.constant_pad(x, [p for t in reversed(total) for p in (0, t % 2)], 0)
    return x, [t // 2 for t in total]


def convolution(c, x, w, b, stride, padding, dilation, groups, n, transposed=False, output_padding=0):
    if isinstance(padding, str):
        x, padding = same_padding(c, x, w, stride, dilation, n) if padding == "same" else (x, 0)
    is_single = x.ndim == n + 1
    if is_single:
        x = _ops.unsqueeze(x, 0)
    function = getattr(_ops, f"conv_transpose{n}d_op" if transposed else f"conv{n}d_op")
    more = {"output_padding": many(output_padding, n)} if transposed and any(many(output_padding, n)) else {}
    made = function(x, w, b, stride=many(stride, n), pad=many(padding, n), dilation=many(dilation, n), groups=groups, **more)
    return _ops.squeeze(made, 0) if is_single else made


for _n in (1, 2, 3):
    @op(f"conv{_n}d.default", f"conv{_n}d.padding")
    def conv(c, x, w, b=None, stride=1, padding=0, dilation=1, groups=1, n=_n):
        return convolution(c, x, w, b, stride, padding, dilation, groups, n)

    @op(f"conv_transpose{_n}d.default" if _n == 1 else f"conv_transpose{_n}d.input")
    def conv_transpose(c, x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, n=_n):
        return convolution(c, x, w, b, stride, padding, dilation, groups, n, True, output_padding)


@op("convolution.default", "_convolution.default")
def convolution_of_any(c, x, w, b, stride, padding, dilation, transposed, output_padding, groups, *given):
    return convolution(c, x, w, b, stride, padding, dilation, groups, w.ndim - 2, transposed, output_padding)


def pooled(c, function, x, n, **options):
    """A pool of x, which may lack the batch."""
    if x.ndim == n + 1:
        return _ops.squeeze(function(_ops.unsqueeze(x, 0), **options), 0)
    return function(x, **options)


for _n in (1, 2, 3):
    @op(f"max_pool{_n}d.default", f"max_pool{_n}d_with_indices.default")
    def max_pool(c, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False, n=_n):
        made = pooled(c, getattr(_ops, f"max_pool{n}d"), x, n, kernel=many(kernel, n), stride=many(stride or kernel, n), pad=many(padding, n), dilation=many(dilation, n),
                      ceil_mode=ceil_mode)
        return (made, None) if "indices" in c.name else made

    @op(f"avg_pool{_n}d.default")
    def avg_pool(c, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor=None, n=_n):
        return pooled(c, getattr(_ops, f"avg_pool{n}d"), x, n, kernel=many(kernel, n), stride=many(stride or kernel, n), pad=many(padding, n), ceil_mode=ceil_mode,
                      exclude_pad=not count_include_pad, divisor=divisor)

    @op(f"adaptive_avg_pool{_n}d.default", f"_adaptive_avg_pool{_n}d.default")
    def adaptive_avg_pool(c, x, size, n=_n):
        return adaptive(c, f"adaptive_avg_pool{n}d", x, n)

    @op(f"adaptive_max_pool{_n}d.default")
    def adaptive_max_pool(c, x, size, n=_n):
        return adaptive(c, f"adaptive_max_pool{n}d", x, n), None


def adaptive(c, name, x, n):
    size = c.shape[-n:]
    is_single = x.ndim == n + 1
    made = getattr(_ops, name)(_ops.unsqueeze(x, 0) if is_single else x, *size)
    return _ops.squeeze(made, 0) if is_single else made


# ---- images in other sizes ----

MODES = {"nearest": "nearest", "_nearest_exact": "nearest_exact", "nearest_exact": "nearest_exact", "bilinear": "bilinear", "linear": "bilinear"}


def _upsample(kind, n):
    def call(c, x, size=None, *given):
        given = list(given)
        align = bool(given.pop(0)) if "linear" in kind or "cubic" in kind else None
        factors = given[0] if given and isinstance(given[0], (list, tuple)) else None
        if kind in MODES and n <= 2:
            return _ops.interpolate(x, size=None if factors else c.shape[-n:], scale=factors or None, mode=MODES[kind], align_corners=align or None)
        if kind in ("nearest", "_nearest_exact"):
            return resized_by_index(c, x, n)
        return resized_by_matrices(c, x, n, size, align, factors)
    return call


for _kind in ("nearest", "_nearest_exact", "bilinear", "linear", "bicubic", "trilinear", "_bilinear_aa", "_bicubic_aa"):
    for _n in (1, 2, 3):
        _begin = "_upsample" if _kind.startswith("_") else "upsample"
        op(f"{_begin}_{_kind.lstrip('_').replace('_aa', '')}{_n}d{'_aa' if _kind.endswith('_aa') else ''}.vec")(_upsample(_kind, _n))
        op(f"{_begin}_{_kind.lstrip('_').replace('_aa', '')}{_n}d{'_aa' if _kind.endswith('_aa') else ''}.default")(
            lambda c, x, size, *given, f=_upsample(_kind, _n), k=_kind: f(c, x, size, *(given[:1] if "linear" in k or "cubic" in k else ()), None))


def resized_by_matrices(c, x, n, size, align, factors):
    """A resize that is linear in each axis, by the matrix that PyTorch's own resize of a unit matrix is."""
    for i in range(n):
        axis = x.ndim - n + i
        before, after = c.about(0).shape[axis], c.result.shape[axis]
        if before != after or align is False and factors and factors[i] != 1:
            x = along(x, axis, as_value(c.builder, resize_matrix(c, n, i, before, after, align, factors)))
    return x


def resize_matrix(c, n, i, before, after, align, factors):
    """[after, before]: axis i of the op on unit vectors. Its other axes have length 2: with 1, antialias is wrong in PyTorch 2.15."""
    import torch
    shape, size, one = [before, 1] + [2] * n, [2] * n, [1.0] * n
    shape[2 + i], size[i] = before, after
    along_axis = [before, 1] + [1] * n
    along_axis[2 + i] = before
    unit = torch.eye(before, dtype=torch.float64).reshape(along_axis).expand(shape).contiguous()
    aligned = [bool(align)] if align is not None else []
    if factors:
        one[i] = factors[i]
    with torch.no_grad():
        if c.name.endswith(".vec"):
            made = c.node.target(unit, None if factors else size, *aligned, one if factors else None)
        else:
            made = c.node.target(unit, size, *aligned)
    return made.movedim(2 + i, 1)[(slice(None), slice(None)) + (0,) * n].t().float()


def along(x, axis, matrix):
    """The product of a matrix with an axis of x."""
    if axis == x.ndim - 1:
        return _ops.matmul(x, matrix, False, True)
    if axis == x.ndim - 2:
        return _ops.matmul(matrix, x)
    return _ops.transpose(_ops.matmul(_ops.transpose(x, axis, -1), matrix, False, True), axis, -1)


def resized_by_index(c, x, n):
    """The nearest element, by the places that PyTorch's own resize of 0, 1, 2, ... has."""
    import torch
    for i in range(n):
        axis = x.ndim - n + i
        before, after = c.about(0).shape[axis], c.result.shape[axis]
        if before != after:
            mode = "nearest-exact" if "exact" in c.name else "nearest"
            at = torch.nn.functional.interpolate(torch.arange(before, dtype=torch.float64).reshape(1, 1, -1), after, mode=mode).long().flatten()
            x = _ops.index_select(x, axis, as_value(c.builder, at))
    return x


@op("pixel_shuffle.default")
def pixel_shuffle(c, x, factor):
    return _ops.pixel_shuffle(x, factor)


@op("pixel_unshuffle.default")
def pixel_unshuffle(c, x, factor):
    return _ops.pixel_unshuffle(x, factor)


@op("channel_shuffle.default")
def channel_shuffle(c, x, groups):
    n, channels, *rest = c.lengths(c.result.shape)
    x = _ops.reshape(x, [n, groups, channels // groups, *rest])
    return _ops.reshape(_ops.transpose(x, 1, 2), [n, channels, *rest])


def window_places(length, kernel, stride, pad, dilation):
    """[kernel, places]: which elements of an axis with its padding each element of the kernel reads."""
    import torch
    places = (length + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    return torch.arange(kernel)[:, None] * dilation + torch.arange(places)[None] * stride


@op("im2col.default")
def im2col(c, x, kernel, dilation, padding, stride):
    n, channels, height, width = c.lengths(c.about(0).shape)
    rows, columns = (window_places(l, kernel[i], stride[i], padding[i], dilation[i]) for i, l in ((0, height), (1, width)))
    if any(padding):
        x = _ops.constant_pad(x, [padding[1], padding[1], padding[0], padding[0]], 0)
    x = _ops.index_select(_ops.index_select(x, 2, as_value(c.builder, rows.flatten())), 3, as_value(c.builder, columns.flatten()))
    x = _ops.reshape(x, [n, channels, *rows.shape, *columns.shape])
    return _ops.reshape(_ops.permute(x, [0, 1, 2, 4, 3, 5]), [n, channels * rows.shape[0] * columns.shape[0], rows.shape[1] * columns.shape[1]])


@op("col2im.default")
def col2im(c, x, size, kernel, dilation, padding, stride):
    n, channels, height, width = c.shape
    rows, columns = (window_places(l, kernel[i], stride[i], padding[i], dilation[i]) for i, l in ((0, height), (1, width)))
    x = _ops.reshape(x, [n, channels, rows.shape[0], columns.shape[0], rows.shape[1], columns.shape[1]])
    x = _ops.reshape(_ops.permute(x, [0, 1, 2, 4, 3, 5]), [n, channels, rows.numel(), columns.numel()])
    whole = c.constant(x.dtype, [n, channels, height + 2 * padding[0], columns.numel()], 0)
    x = _ops.index_add(whole, 2, as_value(c.builder, rows.flatten()), x)
    whole = c.constant(x.dtype, [n, channels, height + 2 * padding[0], width + 2 * padding[1]], 0)
    x = _ops.index_add(whole, 3, as_value(c.builder, columns.flatten()), x)
    return _ops.slice(_ops.slice(x, 2, padding[0], padding[0] + height), 3, padding[1], padding[1] + width)


@op("unfold.default")
def unfold(c, x, axis, size, step):
    axis %= x.ndim
    places = window_places(c.about(0).shape[axis], size, step, 0, 1).t()  # [places, size]
    x = _ops.index_select(x, axis, as_value(c.builder, places.flatten()))
    shape = list(c.about(0).shape)
    shape[axis:axis + 1] = places.shape
    return movedim(c, _ops.reshape(x, c.lengths(shape)), axis + 1, -1)


@op("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(c, x, grid, mode, padding, align):
    function = weft_op("grid_sample")
    if function is not None:
        return function(x, grid, mode=("bilinear", "nearest", "bicubic")[mode], padding=("zeros", "border", "reflection")[padding], align_corners=align or None)
    if x.ndim == 4 and mode == 0 and padding in (0, 1):
        return grid_sample_bilinear(c, x, grid, padding, align)
    raise c.refused("Weft has no grid_sample of this mode", "bilinear, with zeros or the border")


def grid_sample_bilinear(c, x, grid, padding, align):
    """Four gathers by computed places, weighted."""
    n, channels, height, width = c.lengths(c.about(0).shape)
    out = c.shape[2:]
    flat = _ops.reshape(x, [n, channels, height * width])

    def place(axis, length):
        g = _ops.squeeze(_ops.slice(grid, 3, axis, axis + 1), 3)
        g = (g + 1) * ((length - 1) / 2) if align else (g + 1) * (length / 2) + -0.5
        return _ops.clamp(g, 0, length - 1) if padding == 1 else g

    px, py = place(0, width), place(1, height)
    x0, y0 = _ops.stop_gradient(_ops.floor(px)), _ops.stop_gradient(_ops.floor(py))
    total = None
    for dy in (0, 1):
        for dx in (0, 1):
            cx, cy = x0 + dx, y0 + dy
            weight = (1 - (px - x0) if dx == 0 else px - x0) * (1 - (py - y0) if dy == 0 else py - y0)
            inside = _ops.logical_and(_ops.logical_and(cx >= 0.0, cx <= float(width - 1)), _ops.logical_and(cy >= 0.0, cy <= float(height - 1)))
            at = cast(_ops.clamp(cy, 0, height - 1), "i64") * width + cast(_ops.clamp(cx, 0, width - 1), "i64")
            ids = _ops.broadcast_to(_ops.reshape(at, [n, 1, out[0] * out[1]]), [n, channels, out[0] * out[1]])
            found = _ops.reshape(_ops.gather(flat, 2, ids), [n, channels, *out])
            part = found * _ops.unsqueeze(_ops.where(inside, weight, c.value(0, x.dtype)), 1)
            total = part if total is None else total + part
    return total


# ---- norms ----

@op("layer_norm.default", "native_layer_norm.default")
def layer_norm(c, x, shape, w=None, b=None, eps=1e-5, cudnn=True):
    made = normalized(c, x, len(shape), w, b, eps)
    return (made, None, None) if "native" in c.name else made


def normalized(c, x, n, w, b, eps):
    if w is None and (n > 1 or b is not None):
        shape = x.shape[-n:]
        w = c.constant(x.dtype, shape, 1)
    if w is not None and w.dtype != x.dtype and x.dtype not in ("bf16", "f16"):
        w, b = cast(w, x.dtype), b if b is None else cast(b, x.dtype)
    return _ops.layer_norm_op(x, w, b, eps)


@op("rms_norm.default", "_fused_rms_norm.default")
def rms_norm(c, x, shape, w=None, eps=None):
    if w is None and len(shape) > 1:
        w = c.constant(x.dtype, x.shape[-len(shape):], 1)
    made = _ops.rms_norm_op(x, w, eps)
    return (made, None) if "fused" in c.name else made


@op("group_norm.default")
def group_norm(c, x, groups, w=None, b=None, eps=1e-5, cudnn=True):
    return _ops.group_norm_op(x, groups, w, b, eps)


@op("native_group_norm.default")
def native_group_norm(c, x, w, b, n, channels, size, groups, eps):
    return _ops.group_norm_op(x, groups, w, b, eps), None, None


@op("instance_norm.default")
def instance_norm(c, x, w, b, mean, var, use_input_stats, momentum, eps, cudnn=True):
    if not use_input_stats:
        return by_statistics(x, w, b, mean, var, eps)
    return _ops.instance_norm_op(x, w, b, eps)


def in_channels(v, x):
    """[C] as it broadcasts to x[N, C, ...]."""
    return _ops.reshape(v, [-1] + [1] * (x.ndim - 2)) if x.ndim > 2 else v


def by_statistics(x, w, b, mean, var, eps):
    """Normalizes by statistics that are given: a scale and a shift of each channel."""
    scale = _ops.rsqrt(var + eps) if w is None else w * _ops.rsqrt(var + eps)
    shift = -(mean * scale) if b is None else b - mean * scale
    return x * in_channels(scale, x) + in_channels(shift, x)


@op("_native_batch_norm_legit_functional.default", "native_batch_norm.default", "_native_batch_norm_legit.default", "batch_norm.default", raw=True)
def batch_norm(c, x, w, b, mean, var, training, momentum=0.1, eps=1e-5, *given):
    x = c.values(x)
    functional = "functional" in c.name
    layer = batch_norm_layer(c, training)
    if layer is not None:
        made = within_layer(c, x, layer, momentum, eps)
        written = [Written(f"{layer}.{n}") for n in ("running_mean", "running_var")]
        return made if "aten.batch_norm" in c.name else (made, None, None, *(written if functional else ()))
    w, b, mean, var = (c.values(v) for v in (w, b, mean, var))
    if not training:
        made = by_statistics(x, w, b, mean, var, eps)
        return made if "aten.batch_norm" in c.name else (made, None, None)
    made, batch_mean, batch_var = normalized_by_batch(c, x, w, b, eps)
    if mean is None or not functional:
        return made if "aten.batch_norm" in c.name else (made, None, None)
    moved = [_ops.stop_gradient(new) * momentum + old * (1 - momentum) for old, new in ((mean, batch_mean), (var, batch_var))]
    return made, None, None, *moved


def normalized_by_batch(c, x, w, b, eps):
    """By the batch's statistics, which are results, too: the variance unbiased."""
    ones, zeros = (c.constant("f32", [x.shape[1]], n) for n in (1, 0))
    return _ops.batch_norm_op(x, ones if w is None else w, zeros if b is None else b, eps)


def batch_norm_layer(c, training):
    """The name of the module whose weight, bias, running_mean and running_var the node has, or None. Such a node is Weft's layer."""
    from .torch import _Stored
    is_train = c.graph.is_train
    if bool(training) != is_train:
        return None
    names = []
    for argument in c.node.args[1:5]:
        found = c.builder.env.get(argument)
        if not isinstance(found, (_Stored, Written)):
            return None
        if isinstance(found, _Stored) and str(found.tensor.dtype) != "torch.float32":
            return None
        names.append(found.name)
    modules = {n.rpartition(".")[0] for n in names}
    if len(modules) != 1 or [n.rpartition(".")[2] for n in names] != ["weight", "bias", "running_mean", "running_var"] or "" in modules:
        return None
    return modules.pop()


def within_layer(c, x, layer, momentum, eps):
    *scope, name = layer.split(".")
    with c.builder.within(tuple(scope)):
        made = _ops.batch_norm(x, name, eps=eps, momentum=momentum)
    for part in ("weight", "bias", "running_mean", "running_var"):
        c.builder.joined.made.add("/".join([*scope, name, part]))
    for i in (1, 2):
        stored = c.builder.env[c.node.args[i]]
        if not stored.tensor.requires_grad and c.graph.is_train:
            c.builder.model.freeze("/".join([*scope, name, ("weight", "bias")[i - 1]]))
    return made


@op("_native_batch_norm_legit_no_training.default", raw=True)
def batch_norm_no_training(c, x, w, b, mean, var, momentum, eps):
    return batch_norm(c, x, w, b, mean, var, False, momentum, eps)


@op("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(c, x, w, b, training, momentum, eps):
    return normalized_by_batch(c, x, w, b, eps)[0], None, None


@op("softmax.int", "_softmax.default")
def softmax(c, x, axis, dtype=None, *given):
    return _ops.softmax(cast(x, c.dtype), axis)


@op("_safe_softmax.default")
def safe_softmax(c, x, axis, dtype=None):
    """Zeros where all of a row is -inf."""
    x = cast(x, c.dtype)
    dead = _ops.less(_ops.amax(x, [axis], True), c.value(-3e38 if x.dtype != "f16" else -65504.0, x.dtype))
    zero = c.value(0, x.dtype)
    return _ops.where(dead, zero, _ops.softmax(_ops.where(dead, zero, x), axis))


@op("log_softmax.int", "_log_softmax.default")
def log_softmax(c, x, axis, dtype=None, *given):
    return _ops.log_softmax(cast(x, c.dtype), axis)


@op("_weight_norm.default")
def weight_norm(c, v, g, axis=0):
    return _ops.weight_norm(v, g, axis)


@op("_weight_norm_interface.default")
def weight_norm_interface(c, v, g, axis=0):
    return _ops.weight_norm(v, g, axis), None


# ---- losses ----

REDUCTIONS = ("none", "mean", "sum")


def target_of(c, target, x):
    """A target in the type of x; one whose elements are one number is that number."""
    number = c.builder.uniform.get(target)
    return cast(target, x.dtype) if number is None or target.ndim == 0 else c.constant(x.dtype, (), number)


@op("cross_entropy_loss.default")
def cross_entropy(c, x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    is_single = x.ndim == 1
    if is_single:
        x, target = _ops.unsqueeze(x, 0), _ops.reshape(target, [1]) if target.ndim == 0 else _ops.unsqueeze(target, 0)
    made = _ops.cross_entropy(x, target, weight=weight, reduction=REDUCTIONS[reduction], ignore_index=ignore_index if ignore_index != -100 else None,
                              label_smoothing=label_smoothing or None)
    return _ops.reshape(made, []) if is_single and reduction == 0 else made


@op("nll_loss_nd.default", "nll_loss.default", "nll_loss2d.default", "nll_loss_forward.default", "nll_loss2d_forward.default")
def nll(c, x, target, weight=None, reduction=1, ignore_index=-100):
    made = _ops.nll(x, target, weight=weight, reduction=REDUCTIONS[reduction], ignore_index=ignore_index if ignore_index != -100 else None)
    return (made, None) if "forward" in c.name else made


@op("binary_cross_entropy_with_logits.default")
def bce_with_logits(c, x, target, weight=None, pos_weight=None, reduction=1):
    return _ops.bce_with_logits(x, target_of(c, target, x), weight=weight, pos_weight=pos_weight, reduction=REDUCTIONS[reduction])


@op("binary_cross_entropy.default")
def bce(c, x, target, weight=None, reduction=1):
    return _ops.bce(x, target_of(c, target, x), weight=weight, reduction=REDUCTIONS[reduction])


for _name, _function in {"mse_loss": _ops.mse, "l1_loss": _ops.l1}.items():
    @op(_name + ".default")
    def loss_of_difference(c, x, target, reduction=1, function=_function):
        return function(*broadcast(cast(x, c.dtype), cast(target, c.dtype)), reduction=REDUCTIONS[reduction])


@op("smooth_l1_loss.default")
def smooth_l1(c, x, target, reduction=1, beta=1.0):
    return _ops.smooth_l1(*broadcast(x, target), reduction=REDUCTIONS[reduction], beta=beta)


@op("huber_loss.default")
def huber(c, x, target, reduction=1, delta=1.0):
    return _ops.huber(*broadcast(x, target), reduction=REDUCTIONS[reduction], delta=delta)


@op("kl_div.default")
def kl_div(c, x, target, reduction=1, *, log_target=False):
    return _ops.kl_div(x, target, reduction=REDUCTIONS[reduction], log_target=log_target or None)


def broadcast(a, b):
    """Both in one shape."""
    if a.shape == b.shape:
        return a, b
    return a + b * 0, b + a * 0


@op("cosine_similarity.default")
def cosine_similarity(c, a, b, axis=1, eps=1e-8):
    return _ops.cosine_similarity(a, b, axis, eps)


# ---- recurrent layers ----

def recurrent(c, x, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first, step, sums_biases=True):
    """Layers of one direction or two. step(x, w, b, states, reverse) -> (h of all times, last states)."""
    directions, per = (2 if bidirectional else 1), (4 if has_biases else 2)
    if batch_first:
        x = _ops.transpose(x, 0, 1)
    last = []
    for layer in range(layers):
        made = []
        for direction in range(directions):
            i = layer * directions + direction
            w_ih, w_hh, *biases = weights[i * per:(i + 1) * per]
            b_ih, b_hh = biases if biases else (None, None)
            if sums_biases and biases:
                b_ih, b_hh = b_ih + b_hh, None
            h, ends = step(_ops.linear_op(x, w_ih, b_ih), w_hh, b_hh, [_ops.squeeze(_ops.slice(s, 0, i, i + 1), 0) for s in states], direction == 1)
            made.append(h)
            last.append(ends)
        x = made[0] if directions == 1 else _ops.concat(made, -1)
        if dropout and train and layer < layers - 1:
            x = _ops.dropout(x, dropout)
    ends = [ends[0] if len(last) == 1 else _ops.concat(list(ends), 0) for ends in zip(*last)]
    return (_ops.transpose(x, 0, 1) if batch_first else x), *ends


def end_of(h, reverse):
    """The state after the last step, [1, B, H]."""
    return _ops.slice(h, 0, 0, 1) if reverse else _ops.slice(h, 0, -1, None)


@op("lstm.input")
def lstm(c, x, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first):
    def step(x, w, b, states, reverse):
        h, cell = _ops.lstm_op(x, w, *states, reverse)
        return h, (end_of(h, reverse), end_of(cell, reverse))
    return recurrent(c, x, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first, step)


@op("gru.input")
def gru(c, x, state, weights, has_biases, layers, dropout, train, bidirectional, batch_first):
    def step(x, w, b, states, reverse):
        h = _ops.gru_op(x, w, states[0], b, reverse)
        return h, (end_of(h, reverse),)
    return recurrent(c, x, [state], weights, has_biases, layers, dropout, train, bidirectional, batch_first, step, False)


@op("rnn_tanh.input", "rnn_relu.input")
def rnn(c, x, state, weights, has_biases, layers, dropout, train, bidirectional, batch_first):
    def step(x, w, b, states, reverse):
        h = _ops.rnn_op(x, w, states[0], reverse, "relu" in c.name)
        return h, (end_of(h, reverse),)
    return recurrent(c, x, [state], weights, has_biases, layers, dropout, train, bidirectional, batch_first, step)


# ---- elements by index ----

@op("embedding.default")
def embedding(c, w, ids, padding_idx=-1, scale=False, sparse=False):
    made = _ops.embedding_op(w, ids)
    if padding_idx >= 0 and c.graph.is_train:  # its row has no gradient
        frozen = _ops.equal(_ops.unsqueeze(ids, -1), c.constant(ids.dtype, (), padding_idx))
        made = _ops.where(frozen, _ops.stop_gradient(made), made)
    return made


@op("histc.default")
def histc(c, x, bins=100, min=0, max=0):
    if min == max:
        raise c.refused("a histogram between the least and the largest number", "histc(x, bins, min, max)")
    x = cast(_ops.reshape(x, [-1]), "f64")
    inside = _ops.logical_and(x >= float(min), x <= float(max))
    place = _ops.clamp(_ops.floor((x + -float(min)) * (bins / (max - min))), 0, bins - 1)
    place = _ops.where(inside, place, c.value(-1, "f64"))
    return _ops.sum(_ops.one_hot(cast(place, "i64"), bins, c.dtype), [0], False)


@op("bincount.default")
def bincount(c, x, weights=None, minlength=0):
    return _ops.bincount(x, c.shape[0])


@op("one_hot.default")
def one_hot(c, ids, classes=-1):
    return _ops.one_hot(ids, c.result.shape[-1], c.dtype)


@op("gather.default")
def gather(c, x, axis, ids, *, sparse_grad=False):
    return _ops.gather(x, axis, ids)


@op("take_along_dim.default")
def take_along_dim(c, x, ids, axis=None):
    return _ops.take_along_axis(x, ids, axis) if axis is not None else _ops.index_select(_ops.reshape(x, [-1]), 0, _ops.reshape(ids, [-1]))


@op("index_select.default")
def index_select(c, x, axis, ids):
    return _ops.index_select(x, axis, ids)


@op("scatter.src", "scatter.value", "scatter_add.default", "scatter.reduce", "scatter_reduce.two")
def scatter(c, x, axis, ids, source, reduce=None, *, include_self=True, **given):
    source = c.value(source, x.dtype)
    reduce = "sum" if c.name.endswith("scatter_add.default") else reduce or given.get("reduce")
    if reduce in ("sum", "add") and include_self:
        return _ops.scatter_add(x, axis, ids, source)
    if reduce is not None:
        return _ops.scatter_reduce(x, axis, ids, source, {"add": "sum", "multiply": "prod"}.get(reduce, reduce), include_self)
    return _ops.scatter(x, axis, ids, source)


@op("index_add.default")
def index_add(c, x, axis, ids, source, *, alpha=1):
    return _ops.index_add(x, axis, ids, source if alpha == 1 else source * alpha)


@op("index_reduce.default")
def index_reduce(c, x, axis, ids, source, reduce, *, include_self=True):
    return _ops.index_reduce(x, axis, ids, source, reduce, include_self)


@op("index_copy.default")
def index_copy(c, x, axis, ids, source):
    shape = [1] * x.ndim
    shape[axis] = -1
    return _ops.scatter(x, axis, _ops.broadcast_to(_ops.reshape(ids, shape), list(source.shape)), source)


@op("index_fill.int_Scalar")
def index_fill(c, x, axis, ids, number):
    shape = list(x.shape)
    shape[axis] = ids.shape[0]
    return index_copy(c, x, axis, ids, c.constant(x.dtype, shape, number))


@op("sort.default", "sort.stable")
def sort(c, x, *given, stable=None, dim=-1, descending=False):
    if c.name.endswith("default") and given:
        dim, *given = given
        descending = given[0] if given else descending
    return _ops.sort(x, dim, descending)


@op("argsort.default", "argsort.stable")
def argsort(c, x, dim=-1, descending=False, *, stable=None):
    return _ops.argsort(x, dim, descending)


@op("topk.default")
def topk(c, x, k, axis=-1, largest=True, is_sorted=True):
    return _ops.topk(x, k, axis, largest)


def expanded_masks(indices):
    """Indices with masks of bool that are known as the places that they choose."""
    import torch
    made = []
    for i in indices:
        if i is not None and not isinstance(i, Value) and i.dtype in (torch.bool, torch.uint8):
            made += list(i.nonzero(as_tuple=True))
        else:
            made.append(i)
    return made


def places_of(c, indices):
    """Indices for weft.index(): values, or None for an axis that is taken whole."""
    indices = expanded_masks(indices)
    if any(isinstance(i, Value) and i.dtype in ("bool", "u8") for i in indices):
        raise c.refused("an index by a mask that is computed, whose length depends on numbers", "where() with the mask")
    return [None if i is None else c.values(i) for i in indices]


@op("index.Tensor", raw=True)
def index(c, x, indices):
    x = c.values(x)
    single = [a for a, i in enumerate(indices) if i is not None]
    if len(single) == 1 and getattr(indices[single[0]], "ndim", 0) == 1 and not _is_mask(indices[single[0]]):
        return by_one_index(c, x, single[0], indices[single[0]])
    return _ops.index(x, places_of(c, indices))


def _is_mask(i):
    return i.dtype in ("bool", "u8") if isinstance(i, Value) else str(i.dtype) in ("torch.bool", "torch.uint8")


def by_one_index(c, x, axis, ids):
    length = c.about(0).shape[axis]
    if isinstance(ids, Value) or not isinstance(length, int):
        return _ops.index(x, [None] * axis + [c.values(ids)])
    ids = ids.long() % length
    first, n = int(ids[0]) if len(ids) else 0, len(ids)
    if n and ids.tolist() == list(range(first, first + n)):
        return x if n == length else _ops.slice(x, axis, first, first + n)
    return _ops.index_select(x, axis, as_value(c.builder, ids))


@op("index_put.default", "_unsafe_index_put.default", raw=True)
def index_put(c, x, indices, source, accumulate=False):
    x, source = c.values(x), c.values(source)
    source = cast(source, x.dtype)
    if len(indices) >= 1 and indices[0] is not None and _is_mask(indices[0]) and all(i is None for i in indices[1:]) and source.ndim <= x.ndim - indices[0].ndim:
        mask = c.values(indices[0])
        mask = _ops.reshape(mask, [*(-1 if n == BATCH else n for n in mask.shape), *[1] * (x.ndim - mask.ndim)])
        return _ops.where(cast(mask, "bool"), x + source if accumulate else source, x)
    return _ops.index_put(x, places_of(c, indices), source, accumulate)


@op("feature_dropout.default")
def feature_dropout(c, x, p, train):
    if not train or p == 0:
        return x
    n, channels, *rest = c.shape
    return x * _ops.dropout(c.constant(x.dtype, [n, channels, *[1] * len(rest)], 1), p)
