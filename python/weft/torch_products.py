"""Matrix products, attention and recurrent layers as calls of Weft's builders (torch_ops.py has the table)."""
import math

from . import _ops
from .model import Value
from .torch_ops import OPS, as_value, cast, op


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
