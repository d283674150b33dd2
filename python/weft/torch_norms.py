"""Norms and losses as calls of Weft's builders (torch_ops.py has the table)."""
from . import _ops
from .torch_ops import Written, cast, op


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
