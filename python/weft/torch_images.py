"""Convolutions, pools and resizes as calls of Weft's builders (torch_ops.py has the table)."""
from . import _ops
from .torch_ops import as_value, op
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

MODES = {"nearest": "nearest", "_nearest_exact": "nearest_exact", "linear": "bilinear", "bilinear": "bilinear", "trilinear": "bilinear", "bicubic": "bicubic",
         "_bilinear_aa": "bilinear", "_bicubic_aa": "bicubic"}


def _upsample(kind, n):
    def call(c, x, size=None, *given):
        given = list(given)
        align = bool(given.pop(0)) if "linear" in kind or "cubic" in kind else None
        factors = given[0] if given and isinstance(given[0], (list, tuple)) else None
        antialias = kind.endswith("_aa")
        return _ops.interpolate(x, size=None if factors else c.shape[-n:], scale=factors or None, mode=MODES[kind], align_corners=align or None, antialias=antialias or None)
    return call


for _kind in ("nearest", "_nearest_exact", "bilinear", "linear", "bicubic", "trilinear", "_bilinear_aa", "_bicubic_aa"):
    for _n in (1, 2, 3):
        _begin = "_upsample" if _kind.startswith("_") else "upsample"
        op(f"{_begin}_{_kind.lstrip('_').replace('_aa', '')}{_n}d{'_aa' if _kind.endswith('_aa') else ''}.vec")(_upsample(_kind, _n))
        op(f"{_begin}_{_kind.lstrip('_').replace('_aa', '')}{_n}d{'_aa' if _kind.endswith('_aa') else ''}.default")(
            lambda c, x, size, *given, f=_upsample(_kind, _n), k=_kind: f(c, x, size, *(given[:1] if "linear" in k or "cubic" in k else ()), None))


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
    return _ops.unfold(x, kernel, stride=stride, pad=padding, dilation=dilation)


@op("col2im.default")
def col2im(c, x, size, kernel, dilation, padding, stride):
    return _ops.fold(x, size, kernel, stride=stride, pad=padding, dilation=dilation)


@op("unfold.default")
def unfold(c, x, axis, size, step):
    if x.ndim == 0:  # PyTorch takes it as an axis of length 1
        return _ops.reshape(x, [1])
    axis %= x.ndim
    if not isinstance(c.about(0).shape[axis], int):
        raise c.refused("windows along the batch, whose number depends on the batch", "a fixed batch (no dynamic=)")
    places = window_places(c.about(0).shape[axis], size, step, 0, 1).t()  # [places, size]
    x = _ops.index_select(x, axis, as_value(c.builder, places.flatten()))
    shape = list(c.about(0).shape)
    shape[axis:axis + 1] = places.shape
    return movedim(c, _ops.reshape(x, c.lengths(shape)), axis + 1, -1)


@op("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(c, x, grid, mode, padding, align):
    return _ops.grid_sample(x, grid, mode=("bilinear", "nearest", "bicubic")[mode], padding=("zeros", "border", "reflection")[padding], align_corners=align or None)


@op("affine_grid_generator.default")
def affine_grid(c, theta, size, align):
    return _ops.affine_grid(theta, size[2:], align)
