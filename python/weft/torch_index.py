"""Elements by index as calls of Weft's builders (torch_ops.py has the table)."""
from . import _ops
from ._build import BATCH
from .model import Value
from .torch_ops import as_value, cast, op


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
    if x.ndim == 0:  # PyTorch takes it as an axis of length 1
        return _ops.squeeze(index_copy(c, _ops.reshape(x, [1]), 0, _ops.reshape(ids, [-1]), _ops.reshape(source, [-1])), 0)
    shape = [1] * x.ndim
    shape[axis] = -1
    return _ops.scatter(x, axis, _ops.broadcast_to(_ops.reshape(ids, shape), list(source.shape)), source)


@op("index_fill.int_Scalar")
def index_fill(c, x, axis, ids, number):
    shape = list(x.shape) or [1]
    shape[axis] = ids.shape[0] if ids.ndim else 1
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
