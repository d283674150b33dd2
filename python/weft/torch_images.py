"""Convolutions, pools and resizes as calls of Weft's builders (torch_ops.py has the table)."""
from . import _ops
from .torch_ops import as_value, cast, op, weft_op
from .torch_shapes import movedim


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
