"""ops.py - every op that a user can build: how the generator draws its operands and attributes.

A draw is a function of a Draft (draft.py) and an Aim: which operand should have which layout. It asks for operands by
`at(k, shape)`, so that aiming works for all ops alike, and returns the node's result. Beside it stand what the table of
coverage needs: how many operands, which of them no gradient passes, which never have several axes.
"""

import math

F32, F64, BF16, F16, I64, I32, U8, BOOL = range(8)
FLOATS = (F32, F64)
SIGNS = -1  # in the place of how far integers go


class Op:
    """One row: `operands` names them, `blind` are those that no gradient passes, `flat` those of at most one axis,
    `plane` those that have two, three or five, `made` those that the draw makes of others, whatever their layout; `uneven`:
    equal elements have no gradient."""

    def __init__(self, name, draw, operands="x", blind="", flat="", plane="", made="", uneven=False):
        self.name, self.draw, self.operands = name, draw, operands.split()
        self.blind, self.flat, self.plane, self.made = blind.split(), flat.split(), plane.split(), made.split()
        self.uneven = uneven


def unary(name, positive=False, most=30.0, r=None, grow=None):
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 0, 4)), positive=positive, most=most)
        return g.node(name, [x], r=r(g) if r else None, shape=x.shape, mag=(grow or (lambda m: m))(x.mag))
    return draw


def above_one(name):
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 0, 4)), positive=True)
        x = g.node("offset", [x], r=[1.25], shape=x.shape, mag=x.mag + 1.25)
        return g.node(name, [x], shape=x.shape, mag=x.mag)
    return draw


def binary(name, positive=(False, False), most=30.0, mag=lambda a, b: a * b):
    def draw(g, at):
        shape = g.shape(at.ndim(0, 0, 4, at.ndim(1, 0, 4)))
        shapes = g.broadcasting(shape, 2, at)
        if at.is_twice() and g.chance(0.5):
            a = at(0, shape, positive=any(positive), most=most)
            b = a
        else:
            a = at(0, shapes[0], positive=positive[0], most=most)
            b = at(1, shapes[1], positive=positive[1], most=most)
        return g.node(name, [a, b], shape=g.broadcast(a.shape, b.shape), mag=mag(a.mag, b.mag))
    return draw


def signed(g, x):
    """Some of the integers below 9 become negative."""
    return g.node("offset", [x], r=[-4], shape=x.shape, dtype=I64)


def whole(name, divides=False, mag=20):
    """Of integers, which pass no gradient; none that divides is 0."""
    def draw(g, at):
        shape = g.shape(at.ndim(0, 0, 4, at.ndim(1, 0, 4)))
        shapes = g.broadcasting(shape, 2, at)
        a = signed(g, at(0, shapes[0], dtype=I64, below=9))
        b = at(1, shapes[1], dtype=I64, below=9)
        b = g.node("offset", [b], r=[1], shape=b.shape, dtype=I64) if divides else signed(g, b)
        if divides and g.chance(0.5):
            b = g.node(g.pick(["neg", "square"]), [b], shape=b.shape, dtype=I64)
        y = g.node(name, [a, b], shape=g.broadcast(a.shape, b.shape), dtype=I64)
        return g.node("cast", [y], i=[F32], shape=y.shape, mag=mag)
    return draw


def at_times(draw, other, share=0.2):
    """The other draw now and then, where no gradient has to pass."""
    return lambda g, at: (other if not at.route_needs_gradient and g.chance(share) else draw)(g, at)


def whole_number(name, r):
    """The call with numbers r, of integers."""
    def draw(g, at):
        x = signed(g, at(0, g.shape(at.ndim(0, 0, 4)), dtype=I64, below=9))
        y = g.node(name, [x], r=r(g), shape=x.shape, dtype=I64)
        return g.node("cast", [y], i=[F32], shape=y.shape, mag=20)
    return draw


def compare(name):
    """Results are of type bool; integers make `equal` come out true at times."""
    def draw(g, at):
        shape = g.shape(at.ndim(0, 0, 4, at.ndim(1, 0, 4)))
        shapes = g.broadcasting(shape, 2, at)
        integer = name == "equal" or g.chance(0.3)
        a = at(0, shapes[0], dtype=I64 if integer else F32)
        b = at(1, shapes[1], dtype=I64 if integer else F32)
        y = g.node(name, [a, b], shape=g.broadcast(a.shape, b.shape), dtype=BOOL)
        return g.node("cast", [y], i=[F32], shape=y.shape) if g.chance(0.5) else y
    return draw


def where(g, at):
    shape = g.shape(at.ndim(0, 0, 4, at.ndim(1, 0, 4, at.ndim(2, 0, 4))))
    shapes = g.broadcasting(shape, 3, at)
    c = at(0, shapes[0], dtype=BOOL)
    a = at(1, shapes[1])
    b = a if at.is_twice() and g.chance(0.5) else at(2, shapes[2])
    shape = g.broadcast(g.broadcast(c.shape, a.shape), b.shape)
    return g.node("where", [c, a, b], shape=shape, mag=max(a.mag, b.mag))


def logic(name):
    """Operands of type bool, or numbers, of which 0 is false."""
    def draw(g, at):
        shape = g.shape(at.ndim(0, 0, 4, at.ndim(1, 0, 4)))
        shapes = g.broadcasting(shape, 2, at)
        a, b = at(0, shapes[0], dtype=BOOL), at(1, shapes[1], dtype=BOOL)
        y = g.node(name, [a, b], shape=g.broadcast(a.shape, b.shape), dtype=BOOL)
        return g.node("cast", [y], i=[F32], shape=y.shape)
    return draw


def test(name, dtype=F32):
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 0, 4)), dtype=dtype)
        return g.node("cast", [g.node(name, [x], shape=x.shape, dtype=BOOL)], i=[F32], shape=x.shape)
    return draw


def leaky_relu(g):
    return [g.pick([0.01, 0.2, 0.5])]


def factor(g):
    return [g.pick([1, -1, 0.5, 2, 0.3, -1.7])]


def amount(g):
    return [g.pick([0, 1, -0.5, 0.25])]


def bounds(g):
    """clamp's: a wide one, one-sided ones, and one number for all."""
    return list(g.pick([(-0.75, 1.25), (-1.5, 1.5), (0, 30), (-30, 0.5), (0.5, 0.5)]))


def beta_and_threshold(g):
    """softplus's: PyTorch's, and those that let much pass as it is."""
    return [g.pick([1, 1, 0.5, 2.5]), g.pick([20, 20, 1, 0])]


def cast(g, at):
    """Away and back: f64 is computed by the reference alone, integers and bool cut the gradient. What is rounded to 16 bits
    must be known to the last one, so it comes straight from data."""
    x = at(0, g.shape(at.ndim(0, 0, 4)))
    to = g.pick([F32, F64, F64, F64] if at.route_needs_gradient else [F32, F64, F64, F64, I32, I64, BOOL])
    if g.is_data(x) and g.chance(0.5):
        to = g.pick([BF16, F16])
        g.has_rounding = True
    y = g.node("cast", [x], i=[to], shape=x.shape, dtype=to, mag=x.mag) if to != F32 else x
    if to == F64 and g.chance(0.5):
        y = g.node(g.pick(["tanh", "sigmoid", "square", "neg", "gelu"]), [y], shape=y.shape, dtype=F64, mag=x.mag ** 2)
    return g.node("cast", [y], i=[F32], shape=x.shape, mag=y.mag) if y.dtype != F32 else g.node(
        "scale", [y], r=[0.7], shape=y.shape, mag=y.mag)


def dropout(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    p = g.pick([0.2, 0.5, 0])
    if p == 0 or not g.train:  # the builder gives x itself
        return g.node("scale", [g.same("dropout", x, r=[p])], r=[0.9], shape=x.shape, mag=x.mag)
    return g.node("dropout", [x], r=[p], shape=x.shape, mag=2 * x.mag)


def reduce(name, r=lambda g, parts: [], positive=False, mag=lambda m, parts: m, dtype=F32):
    """r: the reals of the call, given how many elements become one."""
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 0, 4)), positive=positive, dtype=dtype, **({"below": 9} if dtype == I64 else {}))
        x = signed(g, x) if dtype == I64 else x
        axes = sorted(g.sample(range(len(x.shape)), g.below(len(x.shape) + 1)))
        keep = g.chance(0.4)
        gone = axes or range(len(x.shape))
        shape = tuple(1 if k in gone else d for k, d in enumerate(x.shape) if keep or k not in gone)
        named = [a - len(x.shape) if g.chance(0.3) else a for a in axes]
        parts = g.elements(x.shape) // max(1, g.elements(shape))
        y = g.node(name, [x], i=[int(keep)] + named, r=r(g, parts), shape=shape, mag=mag(x.mag, parts), dtype=dtype)
        return y if dtype == F32 else g.node("cast", [y], i=[F32], shape=shape)
    return draw


def correction(g, parts):
    """var's: below the number of elements."""
    return [g.pick([0, 1, 0.5]) if parts > 1 else 0]


def spread(g, parts):
    """std's: of a single element it would be 0, with no gradient."""
    return [g.pick([0, 1, 0.5]) if parts > 2 else 0]


def order(g, parts):
    """vector_norm's p."""
    return [g.pick([2, 2, 1, 3, 1.5])]


def scan(name, mag):
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 1, 4)), most=2.0)
        axis = g.below(len(x.shape))
        i = [axis - len(x.shape) if g.chance(0.3) else axis]
        return g.node(name, [x], i=i, shape=x.shape, mag=mag(x.mag, x.shape[axis]))
    return draw


def arg(name):
    """The place of an element along an axis; of max and min as often the element."""
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 1, 4)))
        axis, keep = g.below(len(x.shape)), g.chance(0.3)
        shape = tuple(1 if k == axis else d for k, d in enumerate(x.shape) if keep or k != axis)
        place = name not in ("max", "min") or (not at.route_needs_gradient and g.chance(0.3))
        i = [axis - len(x.shape) if g.chance(0.3) else axis, int(keep)] + ([int(place)] if name in ("max", "min") else [])
        y = g.node(name, [x], i=i, shape=shape, dtype=I64 if place else F32, mag=x.mag)
        return g.node("cast", [y], i=[F32], shape=shape, mag=x.shape[axis]) if place else y
    return draw



def reshape(g, at):
    x = at(0, g.shape(at.ndim(0, 0, 4)))
    shape = x.shape if g.chance(0.1) else g.other_shape(x.shape)
    given = list(shape)
    if shape and g.chance(0.3):
        given[g.below(len(given))] = -1
    return g.node("reshape", [x], i=given, shape=shape, mag=x.mag, view="reshaped")


def flatten(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    first = g.below(len(x.shape))
    shape = x.shape[:first] + (g.elements(x.shape[first:]),)
    return g.node("flatten", [x], i=[first], shape=shape, mag=x.mag, view="reshaped")


def permute(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 5)))
    axes = list(range(len(x.shape)))
    g.shuffle(axes)
    return g.node("permute", [x], i=axes, shape=tuple(x.shape[a] for a in axes), mag=x.mag, view="permuted")


def transpose(g, at):
    x = at(0, g.shape(at.ndim(0, 2, 4)))
    a, b = g.below(len(x.shape)), g.below(len(x.shape))
    shape = list(x.shape)
    shape[a], shape[b] = shape[b], shape[a]
    return g.node("transpose", [x], i=[a, b], shape=tuple(shape), mag=x.mag, view="permuted")


def broadcast_to(g, at):
    shape = g.shape(at.ndim(0, 1, 4))
    x = at(0, g.narrowed(shape, at.ndim(0, 0, 4)))
    shape = g.broadcast(shape, x.shape)
    if len(shape) < 4 and g.chance(0.3):
        shape = (g.size(),) + shape
    if g.chance(0.05):  # many elements cost little here: long sums in the gradient
        wide = tuple(g.pick([40, 100]) if d == 1 else d for d in shape)
        shape = wide if g.elements(wide) <= 40000 else shape
    return g.node("broadcast_to", [x], i=list(shape), shape=shape, mag=x.mag, view="broadcast")


def axis_of_one(name):
    def draw(g, at):
        shape = g.shape(at.ndim(0, 1, 4))
        axis = g.below(len(shape))
        if name == "squeeze":
            x = at(0, shape[:axis] + (1,) + shape[axis + 1:])
            shape = x.shape[:axis] + x.shape[axis + 1:]
        else:
            x = at(0, shape)
            axis = g.below(len(shape) + 1)
            shape = x.shape[:axis] + (1,) + x.shape[axis:]
        axes = max(len(shape), len(x.shape))
        return g.node(name, [x], i=[axis - axes if g.chance(0.3) else axis], shape=shape, mag=x.mag, view="reshaped")
    return draw


def parts(name):
    """One part of split, chunk or unbind: the number i[0] of them."""
    def draw(g, at):
        shape = g.shape(at.ndim(0, 1, 4))
        axis, n = g.below(len(shape)), 1 + g.below(3)
        sizes = [1 + g.below(3) for _ in range(n)]
        if name == "chunk":  # as long as ceil(length / n), except for the last one
            least = max(1, sizes[0] - n + 1)
            sizes = [sizes[0]] * (n - 1) + [least + g.below(sizes[0] - least + 1)]
        if name == "unbind":
            sizes = [1] * n
        x = at(0, shape[:axis] + (sum(sizes),) + shape[axis + 1:])
        which, named = g.below(n), axis - len(shape) if g.chance(0.3) else axis
        i = [which, named] + (sizes if name == "split" else [n])
        own = () if name == "unbind" else (sizes[which],)
        return g.node(name, [x], i=i, shape=shape[:axis] + own + shape[axis + 1:], mag=x.mag, view="sliced")
    return draw


def concat(g, at):
    shape = g.shape(at.ndim(0, 1, 4, at.ndim(1, 1, 4)))
    axis, n = g.below(len(shape)), 1 + g.below(3)
    parts = []
    for k in range(max(n, at.k + 1)):
        own = list(shape)
        if g.chance(0.5):
            own[axis] = g.size()
        same = parts and (at.is_twice() or g.chance(0.1))
        parts.append(parts[0] if same else at(min(k, 1), tuple(own)))
    whole = list(shape)
    whole[axis] = sum(p.shape[axis] for p in parts)
    return g.node("concat", parts, i=[axis], shape=tuple(whole), mag=max(p.mag for p in parts))


def slice_(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    axis = g.below(len(x.shape))
    begin = g.below(x.shape[axis])
    end = begin + 1 + g.below(x.shape[axis] - begin)
    return g.sliced(x, axis, begin, end)


def strided_slice(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    axis, step = g.below(len(x.shape)), 1 + g.below(3)
    begin = g.below(x.shape[axis])
    end = begin + 1 + g.below(x.shape[axis] - begin)
    shape = tuple((end - begin - 1) // step + 1 if k == axis else d for k, d in enumerate(x.shape))
    named = axis - len(shape) if g.chance(0.3) else axis
    return g.node("strided_slice", [x], i=[named, begin, end, step], shape=shape, mag=x.mag, view="sliced")


def pad(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    axis, before, after = g.below(len(x.shape)), g.below(3), g.below(3)
    shape = tuple(d + (before + after) * (k == axis) for k, d in enumerate(x.shape))
    return g.node("pad", [x], i=[axis, before, after], shape=shape, mag=x.mag)


def stack(g, at):
    shape = g.shape(at.ndim(0, 0, 4, at.ndim(1, 0, 4)))
    first = at(0, shape)
    second = first if at.is_twice() else at(1, shape)
    axis = g.below(len(shape) + 1)
    whole = shape[:axis] + (2,) + shape[axis:]
    named = axis - len(whole) if g.chance(0.3) else axis
    return g.node("stack", [first, second], i=[named], shape=whole, mag=max(first.mag, second.mag))


def along(name, numbers):
    """Ops of one operand and one axis: `numbers` gives what the builder takes and the axis' new length."""
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 1, 4)))
        axis = g.below(len(x.shape))
        named = axis - len(x.shape) if g.chance(0.3) else axis
        i, length = numbers(g, named, x.shape[axis])
        shape = tuple(length if k == axis else d for k, d in enumerate(x.shape))
        return g.node(name, [x], i=i, shape=shape, mag=x.mag)
    return draw


def roll(g, axis, length):
    return [g.below(2 * length - 1) - length + 1, axis], length


def repeated(g, axis, length):
    n = 1 + g.below(3)
    return [n, axis], n * length


def tile(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    repeats = [1 + g.below(2) for _ in range(1 + g.below(len(x.shape)))]
    lead = len(x.shape) - len(repeats)
    shape = tuple(d * (repeats[k - lead] if k >= lead else 1) for k, d in enumerate(x.shape))
    return g.node("tile", [x], i=repeats, shape=shape, mag=x.mag)


def triangle(name):
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 2, 4)))
        return g.node(name, [x], i=[g.below(5) - 2], shape=x.shape, mag=x.mag)
    return draw


def constant_pad(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    pads, shape = [], list(x.shape)
    for k in range(1 + g.below(len(x.shape))):
        axis = len(x.shape) - 1 - k
        before, after = g.below(3), g.below(4) - (shape[axis] > 1)
        pads += [before, after]
        shape[axis] += before + after
    return g.node("constant_pad", [x], i=pads, r=[g.pick([0, -1.5, 0.25])], shape=tuple(shape), mag=x.mag + 2)


def flip(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    axes = g.sample(range(len(x.shape)), 1 + g.below(len(x.shape)))
    return g.node("flip", [x], i=axes, shape=x.shape, mag=x.mag)


def one_hot(g, at):
    classes = g.size() + 1
    ids = at(0, g.shape(at.ndim(0, 0, 3) if at.layout != "channels_last" else 4), dtype=I64, below=classes)
    y = g.node("one_hot", [ids], i=[classes], shape=ids.shape + (classes,), dtype=I64)
    return g.node("cast", [y], i=[F32], shape=y.shape)


def bincount(g, at):
    bins = g.size() + 1
    x = at(0, g.shape(at.ndim(0, 0, 4)), dtype=I64, below=bins)
    y = g.node("bincount", [x], i=[bins], shape=(bins,), dtype=I64)
    return g.node("cast", [y], i=[F32], shape=y.shape, mag=g.elements(x.shape))


def gather(name):
    """Ids along one axis; take_along_axis: that broadcast with x."""
    def draw(g, at):
        shape = g.shape(at.ndim(0, 1, 4, at.ndim(1, 1, 4)))
        axis = g.below(len(shape))
        x = at(0, shape)
        count = g.size()
        if name == "index_select":
            ids = at(1, (count,), dtype=I64, below=x.shape[axis])
        else:
            own = tuple(d if name == "gather" or g.chance(0.5) else 1 for d in x.shape)
            own = tuple(1 + g.below(d) for d in own) if name == "gather" and g.chance(0.4) else own
            ids = at(1, own[:axis] + (count,) + own[axis + 1:], dtype=I64, below=x.shape[axis])
        shape = tuple(d if name != "gather" else e for d, e in zip(x.shape, ids.shape)) if name != "index_select" else x.shape
        shape = shape[:axis] + (count,) + shape[axis + 1:]
        return g.node(name, [x, ids], i=[axis - len(x.shape) if g.chance(0.3) else axis], shape=shape, mag=x.mag)
    return draw


def scatter(name):
    """PyTorch leaves open which of several elements scatter keeps, and then its gradient too, so that has one id a line."""
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 1, 4, at.ndim(1, 1, 4, at.ndim(2, 1, 4)))))
        axis = g.below(len(x.shape))
        shape = tuple(1 + g.below(d) if g.chance(0.3) else d for d in x.shape)
        shape = shape[:axis] + (1 if name == "scatter" else g.size(),) + shape[axis + 1:]
        ids = at(1, shape, dtype=I64, below=x.shape[axis])
        src = x if at.is_twice() and shape == x.shape else at(2, shape)
        mag = max(x.mag, src.mag) if name == "scatter" else x.mag + shape[axis] * src.mag
        return g.node(name, [x, ids, src], i=[axis], shape=x.shape, mag=mag)
    return draw


def index_add(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4, at.ndim(2, 1, 4))))
    axis, count = g.below(len(x.shape)), g.size()
    ids = at(1, (count,), dtype=I64, below=x.shape[axis])
    src = at(2, x.shape[:axis] + (count,) + x.shape[axis + 1:])
    return g.node("index_add", [x, ids, src], i=[axis], shape=x.shape, mag=x.mag + count * src.mag)


REDUCTIONS = range(5)  # sum, prod, mean, amax, amin


def scatter_reduce(name):
    """index_reduce has no sum in PyTorch. Products have few elements, since they grow."""
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 1, 4, at.ndim(1, 1, 4, at.ndim(2, 1, 4)))), most=2.0)
        axis, how = g.below(len(x.shape)), g.pick(REDUCTIONS if name == "scatter_reduce" else REDUCTIONS[1:])
        count = g.size(3) if how == 1 else g.size()
        shape = x.shape[:axis] + (count,) + x.shape[axis + 1:]
        ids = at(1, shape if name == "scatter_reduce" else (count,), dtype=I64, below=x.shape[axis])
        src = at(2, shape, most=2.0)
        mag = x.mag * max(1, src.mag) ** count if how == 1 else x.mag + count * src.mag
        return g.node(name, [x, ids, src], i=[axis, how, g.below(2)], shape=x.shape, mag=mag)
    return draw


def places(g, at, k, x, unique=False, plain=False):
    """Axes of x with ids for each, that of operand k first, and the shape of what they name. `unique`: one place; `plain`:
    as many axes as x has."""
    axes = sorted(g.sample(range(len(x.shape)), 1 if plain else 1 + g.below(min(3, len(x.shape)))))
    whole = g.shape(1 if plain else at.ndim(k, 0, 2))
    whole = (1,) * len(whole) if unique else whole
    ids, shape = [], ()
    for n, axis in enumerate(axes):
        own = whole if n == 0 else g.narrowed(whole)
        of = at(k, own, dtype=I64, below=x.shape[axis]) if n == 0 else g.operand(own, dtype=I64, below=x.shape[axis])
        if g.chance(0.3):
            of = g.node("offset", [of], r=[-x.shape[axis]], shape=of.shape, dtype=I64)
        ids.append(of)
        shape = g.broadcast(shape, of.shape)
    rest = [d for i, d in enumerate(x.shape) if i not in axes]
    first = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    return axes, ids, tuple(rest[:first]) + tuple(shape) + tuple(rest[first:])


def index(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    axes, ids, shape = places(g, at, 1, x)
    return g.node("index", [x, *ids], i=axes, shape=shape, mag=x.mag)


def index_put(g, at):
    """Which of several elements is kept PyTorch leaves open, so that has one place."""
    plain, adds = at.k == 1, g.below(2)
    x = at(0, g.shape(4 if plain else at.ndim(0, 1, 4)))
    axes, ids, shape = places(g, at, 2, x, not adds, plain)
    values = at(1, shape if plain else g.narrowed(shape))
    mag = x.mag + g.elements(shape) * values.mag if adds else max(x.mag, values.mag)
    return g.node("index_put", [x, values, *ids], i=[adds, *axes], shape=x.shape, mag=mag)


def sort(name):
    """Values. Among equal ones topk gives the first, PyTorch's any: evaluate.py sorts for both, since gradients tell."""
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 1, 4)))
        axis, up = g.below(len(x.shape)), g.below(2)
        k = x.shape[axis] if name == "sort" else 1 + g.below(x.shape[axis])
        shape = tuple(k if i == axis else d for i, d in enumerate(x.shape))
        return g.node(name, [x], i=([axis, up] if name == "sort" else [k, axis, up]), shape=shape, mag=x.mag)
    return draw


def argsort(g, at):
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    axis = g.below(len(x.shape))
    y = g.node("argsort", [x], i=[axis, g.below(2)], shape=x.shape, dtype=I64)
    return g.node("cast", [y], i=[F32], shape=x.shape, mag=x.shape[axis])


def sequence(name):
    """Those without operands meet one in a product."""
    def draw(g, at):
        n, m = g.size(), g.size()
        begin, step = g.pick([0, -1, 0.5, 2]), g.pick([1, 0.25, -0.5, 2])
        i, r, shape = {"arange": ([F32], [begin, begin + n * step - step / 4, step], (n,)),
                       "linspace": ([F32, n], [begin, begin + step], (n,)), "eye": ([F32, n, m], [], (n, m))}[name]
        y = g.node(name, [], i=i, r=r, shape=shape, mag=abs(begin) + n * abs(step))
        return g.node("mul", [y, g.operand(shape, most=4)], shape=shape, mag=4 * y.mag)
    return draw


def constant_tensor(g, at):
    """Elements that the model holds; data of every type."""
    shape = g.shape(g.below(5))
    dtype = g.pick([F32, F32, F32, I64, BOOL])
    numbers = [round(g.rng.uniform(-2, 2), 3) if dtype == F32 else g.below(2 if dtype == BOOL else 5) for _ in range(g.elements(shape))]
    y = g.node("constant_tensor", [], i=[dtype, *shape], r=numbers, shape=shape, dtype=dtype, mag=4.0)
    if dtype != F32:
        return g.node("cast", [y], i=[F32], shape=shape, mag=4.0)
    return g.node("mul", [y, g.operand(shape, most=4)], shape=shape, mag=16.0)


def einsum(g, at):
    """Operands with any axes, at times twice the same one; a result with some of all axes."""
    size = {c: g.size(4) for c in "abcde"}
    n = max(1 + g.below(3), at.k + 1)
    names = []
    for k in range(n):
        axes = g.sample(size, at.ndim(k, 0, 3))
        if len(axes) > 1 and g.chance(0.15):
            axes[0] = axes[-1]
        names.append("".join(axes))
    shapes = [tuple(size[c] for c in axes) for axes in names]
    xs = []
    for k in range(n):
        again = xs and xs[0].shape == shapes[k] and (at.is_twice() or g.chance(0.2))
        xs.append(xs[0] if again else at(k, shapes[k], most=4))
    used = sorted(set("".join(names)))
    kept = g.sample(used, g.below(min(4, len(used)) + 1))
    once = [c for c in used if "".join(names).count(c) == 1]
    implicit = used and g.chance(0.15)
    result = "".join(once if implicit else kept)
    summed, mag = math.prod(size[c] for c in used if c not in result), math.prod(x.mag for x in xs)
    return g.node("einsum", xs, s=",".join(names) + ("" if implicit else "->" + result),
                  shape=tuple(size[c] for c in result), mag=mag * summed ** 0.5)


def matmul(g, at):
    n, k, m = g.size(), g.size(), g.size()
    lead = g.shape(g.pick([0, 0, 1, 1, 2]))
    if at.layout == "channels_last":
        lead = g.shape(2)
    ta, tb = g.chance(0.4), g.chance(0.4)
    leads = g.broadcasting(lead, 2, at)
    if at.is_twice() and g.chance(0.5):
        a = b = at(0, leads[0] + (n, n))
        ta, tb = g.chance(0.5), g.chance(0.5)
    else:
        a = at(0, leads[0] + ((k, n) if ta else (n, k)))
        b = at(1, leads[1] + ((m, k) if tb else (k, m)))
    rows, columns = a.shape[-1] if ta else a.shape[-2], b.shape[-2] if tb else b.shape[-1]
    shape = g.broadcast(a.shape[:-2], b.shape[:-2]) + (rows, columns)
    return g.node("matmul", [a, b], i=[int(ta), int(tb)], shape=shape, mag=a.mag * b.mag * k ** 0.5)


def linear(g, at):
    k, m = g.size(), g.size()
    lead = g.shape(at.ndim(0, 1, 4) - 1)
    if at.layout == "channels_last":
        lead = g.shape(3)
    x = at(0, lead + (k,))
    w = x if at.is_twice() and len(x.shape) == 2 else at(1, (m, k))
    b = at(2, (w.shape[0],)) if at.k == 2 or g.chance(0.6) else None
    return g.node("linear", [x, w, b], shape=lead + (w.shape[0],), mag=x.mag * w.mag * k ** 0.5)


def embedding(g, at):
    rows, d = g.size() + 1, g.size()
    w = at(0, (rows, d))
    ids = at(1, g.shape(at.ndim(1, 0, 3) if at.layout != "channels_last" else 4), dtype=I64, below=rows)
    return g.node("embedding", [w, ids], shape=ids.shape + (d,), mag=w.mag)


def attention(g, at):
    b, h, t, s, d = g.size(3), g.size(3), g.size(5), g.size(5), g.size(6)
    q = at(0, (b, h, t, d), most=4)
    if at.is_twice():
        k, v = q, q
    else:
        k, v = at(1, (b, h, s, d), most=4), at(2, (b, h, s, d), most=4)
    r = [g.pick([0.0, 0.5])]
    return g.node("attention", [q, k, v], i=[int(g.chance(0.4))], r=r, shape=(b, h, t, d), mag=v.mag)


def attention_with(g, at):
    """Heads of q share those of k and v; a mask that broadcasts to the scores, of bools or of numbers."""
    b, heads, share, t, s, d = g.size(3), g.size(2), g.pick([1, 1, 2, 3]), g.size(5), g.size(5), g.size(6)
    q, k = at(0, (b, heads * share, t, d), most=4), at(1, (b, heads, s, d), most=4)
    e = g.size(6) if at.k != 2 and g.chance(0.4) else d
    v = k if at.is_twice() and g.chance(0.5) else at(2, (b, heads, s, e), most=4)
    mask, o = None, {}
    if at.k == 3 or g.chance(0.6):
        scores = (b, heads * share, t, s)
        shape = scores if at.k == 3 and at.layout == "channels_last" else g.narrowed(scores, at.ndim(3, 0, 4))
        mask = at(3, shape, dtype=BOOL if not at.route_needs_gradient and g.chance(0.5) else F32)
    if g.chance(0.3):
        o["causal"] = True
    if g.chance(0.3):
        o["window"] = 1 + g.below(4)
    if g.chance(0.2):
        o["ahead"] = 1 + g.below(4)
    if g.chance(0.2):
        o["offset"] = g.below(7) - 3
    if g.chance(0.2):
        o["softcap"] = g.pick([0.5, 1, 20])
    if g.chance(0.4):
        o["scale"] = 0.5
    if g.chance(0.3):
        o["dropout"] = g.pick([0.2, 0.5])
    return g.node("attention_with", [q, k, v, mask], o=o, shape=(b, heads * share, t, v.shape[3]), mag=2 * v.mag)


def rotary(g, at):
    ndim = at.ndim(0, 2, 4)
    half = 1 + g.below(3)
    x = at(0, g.shape(ndim - 1) + (2 * half,))
    o = {"base": g.pick([500, 10000])}
    if g.chance(0.4):
        o["offset"] = g.below(9)
    if g.chance(0.4):
        o["dims"] = 2 + 2 * g.below(half)
    if g.chance(0.5):
        o["interleaved"] = True
    return g.node("rotary", [x], o=o, shape=x.shape, mag=2 * x.mag)


def recurrent(name, gates):
    """x, w and at times the states: h0, then lstm's c0 or gru's bias. lstm gives h, c or their sum; rnn has relu or not."""
    def draw(g, at):
        t, b, h = 1 + g.below(4), g.size(3), g.size(5)
        x, w = at(0, (t, b, gates * h), most=4), at(1, (gates * h, h), most=2)
        h0 = at(2, (b, h), most=4) if at.k == 2 or g.chance(0.5) else None
        last = (b, h) if name == "lstm" else (gates * h,)
        rest = [at(3, last, most=4) if at.k == 3 or g.chance(0.5) else None] if gates > 1 else []
        i = [int(g.chance(0.4))]
        i += [g.below(3)] if name == "lstm" else [g.below(2)] if name == "rnn" else []
        mag = max(1, h0.mag if h0 else 1, rest[0].mag if name == "lstm" and rest[0] else 1)
        mag *= (x.mag + 2) * h ** 0.5 if name == "rnn" and i[1] else t
        return g.node(name, [x, w, h0, *rest], i=i, shape=(t, b, h), mag=mag)
    return draw


def window(g, size, transposed=False):
    """Kernel, stride, pad, dilation of one axis, and its length afterwards; None when nothing is left."""
    kernel, stride, dilation = g.pick([1, 2, 3, 3]), g.pick([1, 1, 2, 3]), g.pick([1, 1, 1, 2])
    pad = g.below(min(kernel, 2) + 1)
    reach = dilation * (kernel - 1) + 1
    if transposed:
        extra = g.below(max(stride, dilation)) if g.chance(0.3) else 0
        extra = min(extra, max(stride, dilation) - 1)
        after = (size - 1) * stride - 2 * pad + reach + extra
        return (kernel, stride, pad, dilation, extra, after) if after >= 1 else None
    if size + 2 * pad < reach:
        return None
    return kernel, stride, pad, dilation, 0, (size + 2 * pad - reach) // stride + 1


def windows(g, h, w, transposed=False):
    while True:
        a, b = window(g, h, transposed), window(g, w, transposed)
        if a and b:
            return a, b


def conv(name):
    transposed = name == "conv_transpose2d"

    def draw(g, at):
        groups = g.pick([1, 1, 1, 2, 3])
        inner, outer = g.size(3), g.size(3)
        n, h, w = g.size(3), g.size(7), g.size(7)
        a, b = windows(g, h, w, transposed)
        x = at(0, (n, inner * groups, h, w))
        shape = (inner * groups, outer, a[0], b[0]) if transposed else (outer * groups, inner, a[0], b[0])
        weight = at(1, shape)
        bias = at(2, (outer * groups,)) if at.k == 2 or g.chance(0.5) else None
        i = [a[1], b[1], a[2], b[2], a[3], b[3], groups, a[4], b[4]]
        return g.node(name, [x, weight, bias], i=i, shape=(n, outer * groups, a[5], b[5]), image=True,
                      mag=x.mag * weight.mag * (inner * a[0] * b[0]) ** 0.5)
    return draw


def pool_window(g, size, dilates, ceil):
    """Kernel, stride, pad, dilation of one axis and the number of windows: padding at most half of the kernel, no window
    without an element of the input."""
    while True:
        kernel, stride, dilation = g.pick([1, 2, 3, 3]), g.pick([1, 1, 2, 3]), g.pick([1, 1, 2]) if dilates else 1
        reach = dilation * (kernel - 1) + 1
        pad = g.below(kernel // 2 + 1)
        count = (size + 2 * pad - reach + (stride - 1) * ceil) // stride + 1
        count -= ceil and (count - 1) * stride >= size + pad
        elements = lambda i: [at for at in range(i * stride - pad, i * stride - pad + reach, dilation) if 0 <= at < size]
        if count > 0 and all(elements(i) for i in range(count)):
            return kernel, stride, pad, dilation, count


def pool(name):
    def draw(g, at):
        n, c, h, w = g.size(3), g.size(5), g.size(8), g.size(8)
        is_max, ceil = name == "max_pool2d", g.pick([0, 0, 1])
        a, b = pool_window(g, h, is_max, ceil), pool_window(g, w, is_max, ceil)
        averages = [0, 0] if is_max else [g.pick([0, 1]), g.pick([0, 0, 3])]
        i = [k for pair in zip(a[:4], b[:4]) for k in pair] + [ceil] + averages
        x = at(0, (n, c, h, w))
        mag = 3 * x.mag if averages[1] else x.mag
        return g.node(name, [x], i=i, shape=(n, c, a[4], b[4]), image=True, mag=mag)
    return draw


def adaptive(name):
    def draw(g, at):
        n, c, h, w = g.size(3), g.size(5), g.size(8), g.size(8)
        x = at(0, (n, c, h, w))
        size = [1 + g.below(h), 1 + g.below(w)]
        return g.node(name, [x], i=size, shape=(n, c, *size), image=True, mag=x.mag)
    return draw


def conv_line(name):
    transposed = name == "conv_transpose1d"

    def draw(g, at):
        groups, inner, outer = g.pick([1, 1, 2, 3]), g.size(3), g.size(3)
        n, length = g.size(3), g.size(9)
        a = None
        while not a:
            a = window(g, length, transposed)
        x = at(0, (n, inner * groups, length))
        weight = at(1, (inner * groups, outer, a[0]) if transposed else (outer * groups, inner, a[0]))
        bias = at(2, (outer * groups,)) if at.k == 2 or g.chance(0.5) else None
        i = [a[1], 0, a[2], 0, a[3], 0, groups, a[4], 0]
        return g.node(name, [x, weight, bias], i=i, shape=(n, outer * groups, a[5]),
                      mag=x.mag * weight.mag * (inner * a[0]) ** 0.5)
    return draw


def pool_line(name):
    def draw(g, at):
        n, c, length, is_max, ceil = g.size(3), g.size(5), g.size(9), name == "max_pool1d", g.pick([0, 0, 1])
        a = pool_window(g, length, is_max, ceil)
        i = [a[0], 0, a[1], 0, a[2], 0, a[3] if is_max else 0, 0, ceil, 0 if is_max else g.pick([0, 1]), 0]
        x = at(0, (n, c, length))
        return g.node(name, [x], i=i, shape=(n, c, a[4]), mag=x.mag)
    return draw


def adaptive_line(name):
    def draw(g, at):
        n, c, length = g.size(3), g.size(5), g.size(9)
        x, size = at(0, (n, c, length)), 1 + g.below(length)
        return g.node(name, [x], i=[size], shape=(n, c, size), mag=x.mag)
    return draw


def conv_volume(name):
    transposed = name == "conv_transpose3d"

    def draw(g, at):
        groups, inner, outer, n = g.pick([1, 1, 2, 3]), g.size(3), g.size(3), g.size(2)
        axes, sizes = [None], None
        while not all(axes):
            sizes = [g.size(5) for _ in range(3)]
            axes = [window(g, size, transposed) for size in sizes]
        x, kernel = at(0, (n, inner * groups, *sizes)), [a[0] for a in axes]
        weight = at(1, (inner * groups, outer, *kernel) if transposed else (outer * groups, inner, *kernel))
        bias = at(2, (outer * groups,)) if at.k == 2 or g.chance(0.5) else None
        i = [a[k] for k in (1, 2, 3, 4) for a in axes] + [groups]
        return g.node(name, [x, weight, bias], i=i, shape=(n, outer * groups, *(a[5] for a in axes)),
                      mag=x.mag * weight.mag * (inner * math.prod(kernel)) ** 0.5)
    return draw


def pool_volume(name):
    def draw(g, at):
        n, c, is_max, ceil = g.size(2), g.size(4), name == "max_pool3d", g.pick([0, 0, 1])
        axes, sizes = None, None
        # F.avg_pool3d refuses a kernel longer than the axis without its padding
        while not axes or not is_max and any(a[0] > size for a, size in zip(axes, sizes)):
            sizes = [g.size(6) for _ in range(3)]
            axes = [pool_window(g, size, is_max, ceil) for size in sizes]
        averages = [0, 0] if is_max else [g.pick([0, 1]), g.pick([0, 0, 3])]
        i = [a[k] for k in range(4) for a in axes] + [ceil] + averages
        x = at(0, (n, c, *sizes))
        return g.node(name, [x], i=i, shape=(n, c, *(a[4] for a in axes)), mag=(9 if averages[1] else 1) * x.mag)
    return draw


def adaptive_volume(name):
    def draw(g, at):
        n, c, sizes = g.size(3), g.size(4), [g.size(5) for _ in range(3)]
        x, parts = at(0, (n, c, *sizes)), [1 + g.below(size) for size in sizes]
        return g.node(name, [x], i=parts, shape=(n, c, *parts), mag=x.mag)
    return draw


def interpolate(g, at):
    """Of images and of lines."""
    n, c, inner = g.size(3), g.size(5), [g.size(6), g.size(6)]
    if at.layout != "channels_last" and g.chance(0.2):
        inner.pop()
    x, mode, scale, size = at(0, (n, c, *inner)), g.below(4 if len(inner) == 2 else 3), [0, 0], [0, 0]
    if g.chance(0.3):  # scales that no rounding makes a size of another
        scale[:len(inner)] = [g.pick([0.75, 1.5, 2, 2.5]) if d > 1 else 2 for d in inner]
        after = [math.floor(d * s) for d, s in zip(inner, scale)]
    else:
        size[:len(inner)] = after = [1 + g.below(9) for _ in inner]
    i = size + [mode, int(mode >= 2 and g.chance(0.5)), int(mode >= 2 and len(inner) == 2 and g.chance(0.4))]
    return g.node("interpolate", [x], i=i, r=scale, shape=(n, c, *after), image=True, mag=(2 if mode == 3 else 1) * x.mag)


def interpolate3d(g, at):
    n, c, inner, after = g.size(2), g.size(4), [g.size(4) for _ in range(3)], [1 + g.below(6) for _ in range(3)]
    x, mode = at(0, (n, c, *inner)), g.below(3)
    return g.node("interpolate3d", [x], i=after + [mode, int(mode == 2 and g.chance(0.5))], shape=(n, c, *after), mag=x.mag)


def grid_sample(g, at):
    """Not the nearest element: a rounding of the place makes it another."""
    axes = 3 if at.layout != "channels_last" and g.chance(0.3) else 2
    n, c, inner, places = g.size(3), g.size(4), [g.size(5) for _ in range(axes)], [g.size(4) for _ in range(axes)]
    x, grid, mode = at(0, (n, c, *inner)), at(1, (n, *places, axes), most=2), g.pick([0, 0, 2])
    i = [mode, g.below(3), int(g.chance(0.5))]
    return g.node("grid_sample", [x, grid], i=i, shape=(n, c, *places), image=True, mag=(2 if mode else 1) * x.mag)


def affine_grid(g, at):
    n, h, w = g.size(3), g.size(5), g.size(5)
    theta = at(0, (n, 2, 3))
    return g.node("affine_grid", [theta], i=[h, w, int(g.chance(0.5))], shape=(n, h, w, 2), mag=3 * theta.mag)


def sliding(name):
    """unfold and fold."""
    def draw(g, at):
        n, c, h, w = g.size(3), g.size(3), g.size(6), g.size(6)
        a, b = windows(g, h, w)
        i = [a[1], b[1], a[2], b[2], a[3], b[3], 0, 0, 0, a[0], b[0], h, w]
        image, columns = (n, c, h, w), (n, c * a[0] * b[0], a[5] * b[5])
        if name == "unfold":
            x = at(0, image)
            return g.node(name, [x], i=i, shape=columns, mag=x.mag)
        x = at(0, columns)
        return g.node(name, [x], i=i, shape=image, mag=x.mag * a[0] * b[0])
    return draw


def shuffle(name):
    def draw(g, at):
        n, c, h, w, f = g.size(3), g.size(3), g.size(4), g.size(4), g.pick([1, 2, 2, 3])
        small, large = (n, c * f * f, h, w), (n, c, h * f, w * f)
        before, after = (small, large) if name == "pixel_shuffle" else (large, small)
        x = at(0, before)
        return g.node(name, [x], i=[f], shape=after, mag=x.mag)
    return draw


def pad_mode(name):
    def draw(g, at):
        shape = (g.size(3), g.size(5), 1 + g.size(4), 1 + g.size(5))
        i = [g.below({"reflect_pad": d, "circular_pad": d + 1}.get(name, 4)) for d in (shape[3], shape[2]) for _ in "ba"]
        x = at(0, shape)
        after = shape[:2] + (shape[2] + i[2] + i[3], shape[3] + i[0] + i[1])
        return g.node(name, [x], i=i, shape=after, mag=x.mag)
    return draw


def softmax(name):
    def draw(g, at):
        x = at(0, g.shape(at.ndim(0, 1, 4)))
        axis = g.below(len(x.shape))
        named = axis - len(x.shape) if g.chance(0.4) else axis
        return g.node(name, [x], i=[named], shape=x.shape, mag=1 if name == "softmax" else 2 * x.mag + 2)
    return draw


def layer_norm(g, at):
    """Over as many of the last axes as w has."""
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    d = x.shape[-2 if len(x.shape) > 1 and at.k <= 0 and g.chance(0.2) else -1:]
    affine = at.k > 0 or g.chance(0.7)
    w, b = (at(1, d), at(2, d)) if affine else (None, None)
    return g.node("layer_norm", [x, w, b], r=[g.pick([0, 1e-3, 0.1])], shape=x.shape, mag=3 * (w.mag if affine else 1))


def rms_norm(g, at):
    """A row near 0 would be divided by rounding: a wide eps."""
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    d = x.shape[-2 if len(x.shape) > 1 and at.k <= 0 and g.chance(0.2) else -1:]
    w = at(1, d) if at.k > 0 or g.chance(0.7) else None
    return g.node("rms_norm", [x, w], r=[g.pick([1e-3, 0.1])], shape=x.shape, mag=3 * (w.mag if w else 1))


def channel_norm(name):
    """group_norm and instance_norm."""
    def draw(g, at):
        groups, image = 1 + g.below(3), at.layout == "channels_last" or g.chance(0.6)
        x = at(0, (g.size(3), groups * g.size(3), 2 + g.below(3), *([2 + g.below(3)] if image else [])))
        c = x.shape[1:2]
        affine = at.k > 0 or g.chance(0.7)
        w, b = (at(1, c), at(2, c)) if affine else (None, None)
        return g.node(name, [x, w, b], i=[groups] if name == "group_norm" else [], r=[g.pick([1e-3, 0.1])], shape=x.shape,
                      mag=3 * (w.mag if affine else 1))
    return draw


def batch_norm(g, at):
    """Variances of few numbers are ill conditioned: at least five a channel, and a wide eps."""
    axes = 4 if at.layout == "channels_last" or g.chance(0.5) else g.pick([2, 2, 3, 5])
    x = at(0, (2 + g.below(2), g.size(5), *(2 + g.below(3) for _ in range(axes - 2))) if axes > 2 else (5 + g.below(5), g.size(6)))
    path = g.norm_path(x.shape[1])
    return g.node("batch_norm", [x], s=path, r=[g.pick([1e-3, 0.1]), g.pick([0, 0.3])], shape=x.shape, mag=4, image=axes == 4)


def batch_norm_eval(g, at):
    x = at(0, (g.size(), g.size(5), *(g.size(4) for _ in range(at.ndim(0, 2, 5) - 2))))
    c = x.shape[1:2]
    mean, var = at(1, c), at(2, c, positive=True)
    affine = at.k > 2 or g.chance(0.7)
    w, b = (at(3, c), at(4, c)) if affine else (None, None)
    return g.node("batch_norm_eval", [x, mean, var, w, b], r=[g.pick([1e-3, 0.1])], shape=x.shape,
                  mag=2 * (x.mag + mean.mag) * (w.mag if affine else 1))


def cross_entropy(g, at):
    n, classes = g.size(), 1 + g.size()
    x, t = at(0, (n, classes)), at(1, (n,), dtype=I64, below=classes)
    return g.node("cross_entropy", [x, t], shape=(), mag=x.mag + 2)


MEAN, SUM, NONE, BATCHMEAN = range(4)


def lost(g, name, ins, shape, mag, most=NONE, **o):
    """A loss of elements of this shape, reduced somehow."""
    o["reduction"] = g.below(most + 1)
    return g.node(name, ins, o=o, shape=shape if o["reduction"] == NONE else (), mag=mag * (
        1 if o["reduction"] in (MEAN, NONE) else g.elements(shape)))


def signs(g, shape):
    """1 and -1, known to the last bit."""
    return g.input(shape, I64, below=SIGNS)


def class_loss(name):
    """Of [N, C, d] too; class 0 may be ignored, but where no row may count there is no mean."""
    def draw(g, at):
        n, classes = g.size(), 2 + g.size()
        rows = (n, g.size()) if at.k == 0 and g.chance(0.5) else (n,)
        rows = g.shape(3) if at.k == 0 and at.layout == "channels_last" else rows
        rows = (n, *g.shape(at.ndim(1, 1, 4) - 1)) if at.k == 1 else rows
        x = at(0, (rows[0], classes) + rows[1:])
        t = at(1, rows, dtype=I64, below=classes)
        w = at(2, (classes,), positive=True) if at.k == 2 or g.chance(0.5) else None
        o = {"reduction": g.below(3)}
        if o["reduction"] != MEAN and g.chance(0.5):
            o["ignore_index"] = 0
        if name == "cross_entropy_with" and g.chance(0.6):
            o["label_smoothing"] = g.pick([0.1, 0.5])
        return g.node(name, [x, t, w], o=o, shape=rows if o["reduction"] == NONE else (), mag=(x.mag + 2) * (
            w.mag if w else 1) * (n if o["reduction"] == SUM else 1))
    return draw


def soft_cross_entropy(g, at):
    """Targets that are probabilities, or any numbers."""
    shape = (g.size(), 1 + g.size()) + ((g.size(),) if g.chance(0.3) else ())
    shape = g.shape(4) if at.layout == "channels_last" else shape
    x, t = at(0, shape), at(1, shape, positive=True)
    w = at(2, (shape[1],), positive=True) if at.k == 2 or g.chance(0.5) else None
    o = {"label_smoothing": g.pick([0.1, 0.5])} if g.chance(0.5) else {}
    return lost(g, "soft_cross_entropy", [x, t, w], shape[:1] + shape[2:], (x.mag + 2) * t.mag * shape[1], **o)


def elementwise_loss(name, positive=False, **choices):
    """Of a prediction and a target; `choices`: numbers of an option."""
    def draw(g, at):
        shape = g.shape(at.ndim(0, 0, 4, at.ndim(1, 0, 4)))
        most = BATCHMEAN if name == "kl_div" and shape else NONE
        o = {k: g.pick(v) for k, v in choices.items() if g.chance(0.7)}
        a, b = at(0, shape), at(1, shape, positive=positive and not o.get("log_target"), most=2.5)
        return lost(g, name, [a, b], shape, 2 * (a.mag + b.mag) ** (2 if name == "mse_with" else 1), most, **o)
    return draw


def weighted_bce(name):
    """bce's predictions and targets are made by sigmoids; weights broadcast."""
    def draw(g, at):
        shape = g.shape(at.ndim(0, 0, 4, at.ndim(1, 0, 4, at.ndim(2, 0, 4, at.ndim(3, 0, 4)))))
        x, t = at(0, shape, most=4), at(1, shape)
        if name == "bce":
            x, t = (g.node("sigmoid", [v], shape=shape) for v in (x, t))
        w = at(2, g.narrowed(shape) if at.k != 2 else shape) if at.k == 2 or g.chance(0.5) else None
        ins = [x, t, w]
        if name == "bce_with_logits_with":
            wanted = at.k == 3 or g.chance(0.5)
            ins.append(at(3, g.narrowed(shape) if at.k != 3 else shape, positive=True) if wanted else None)
        return lost(g, name, ins, shape, 4 * (x.mag + 1) * t.mag)
    return draw


def hinge_embedding(g, at):
    shape = g.shape(at.ndim(0, 0, 4))
    x, o = at(0, shape), {"margin": 0.5} if g.chance(0.5) else {}
    return lost(g, "hinge_embedding", [x, signs(g, shape)], shape, x.mag + 1, **o)


def margin_ranking(g, at):
    shape = g.shape(at.ndim(0, 0, 4, at.ndim(1, 0, 4, at.ndim(2, 0, 4))))
    a = at(0, shape)
    b, t = a if at.is_twice() and g.chance(0.3) else at(1, shape), at(2, shape)
    o = {"margin": 0.5} if g.chance(0.5) else {}
    return lost(g, "margin_ranking", [a, b, t], shape, (a.mag + b.mag) * t.mag, **o)


def cosine_embedding(g, at):
    n, d = g.size(), 1 + g.size()
    a, b, o = at(0, (n, d), positive=True), at(1, (n, d)), {"margin": 0.25} if g.chance(0.5) else {}
    return lost(g, "cosine_embedding", [a, b, signs(g, (n,))], (n,), 2.0, **o)


def triplet_margin(g, at):
    """Three operands: one that is twice among them would make a distance of 0, of which any direction is a gradient."""
    shape = g.shape(at.ndim(0, 1, 4, at.ndim(1, 1, 4, at.ndim(2, 1, 4))))
    ins = [at(0, shape), at(1, shape), at(2, shape)]
    o = {k: g.pick(v) for k, v in {"margin": [0.5, 2], "p": [1, 2], "swap": [True]}.items() if g.chance(0.5)}
    return lost(g, "triplet_margin", ins, shape[:-1], sum(x.mag for x in ins) * shape[-1], **o)


def prelu(g, at):
    x = at(0, g.shape(at.ndim(0, 2, 4)))
    w = at(1, (x.shape[1] if g.chance(0.7) else 1,))
    return g.node("prelu", [x, w], shape=x.shape, mag=x.mag * max(1, w.mag))


def measured(name):
    """Along an axis of lengths well above 0."""
    def draw(g, at):
        shape = g.shape(at.ndim(0, 1, 4, at.ndim(1, 1, 4) if name == "cosine_similarity" else None))
        axis = g.below(len(shape))
        a = at(0, shape, positive=True)
        if name == "normalize":
            return g.node(name, [a], i=[axis], r=[1e-3], shape=shape)
        b = a if at.is_twice() and g.chance(0.5) else at(1, shape, positive=True)
        return g.node(name, [a, b], i=[axis - len(shape)], r=[1e-3], shape=shape[:axis] + shape[axis + 1:])
    return draw


def compared(name):
    """A prediction and a target: of one shape, or the target a single number."""
    def draw(g, at):
        shape = g.shape(at.ndim(0, 0, 4, at.ndim(1, 0, 4)))
        a = at(0, shape)
        b = a if at.is_twice() and g.chance(0.5) else at(1, shape if at.k == 1 or g.chance(0.8) else ())
        return g.node(name, [a, b], shape=() if name == "mse" else shape, mag=a.mag ** 2 + a.mag * b.mag + 1)
    return draw


def over_ranks(draw):
    """In a case of several ranks, else another op."""
    return lambda g, at: (draw if g.model.ranks else TABLE["neg"].draw)(g, at)


def all_reduce(g, at):
    x = at(0, g.shape(at.ndim(0, 0, 4)))
    return g.node("all_reduce", [x], i=[g.below(4)], shape=x.shape, mag=4 * x.mag)


def all_gather(g, at):
    """The sum of the squares of all ranks along an axis: of a length that no rank changes."""
    x = at(0, g.shape(at.ndim(0, 1, 4)), most=8.0)
    axis = g.below(len(x.shape))
    shape = x.shape[:axis] + (1,) + x.shape[axis + 1:]
    return g.node("all_gather", [x], i=[axis], shape=shape, mag=30 * x.mag ** 2)


def reduce_scatter(g, at):
    """Of what all_gather gives, times a number of the rank."""
    x = at(0, g.shape(at.ndim(0, 1, 4)), most=8.0)
    return g.node("reduce_scatter", [x], i=[g.below(len(x.shape)), g.below(2)], shape=x.shape, mag=4 * x.mag ** 2)


def broadcast(g, at):
    x = at(0, g.shape(at.ndim(0, 0, 4)))
    return g.node("broadcast", [x], i=[g.below(g.model.ranks)], shape=x.shape, mag=x.mag)


def rank_rows(g, at):
    """These numbers, plus a rank, times a world: as f32."""
    x = at(0, g.shape(at.ndim(0, 1, 4)))
    y = g.node("rank_rows", [x], shape=x.shape[:1], dtype=I64)
    for op, name in (("add", "rank"), ("mul", "world")):
        y = g.node(op, [y, g.node(name, [], shape=(), dtype=I64)], shape=y.shape, dtype=I64)
    return g.node("cast", [y], i=[F32], shape=y.shape, mag=140)


OVER_RANKS = {"all_reduce": all_reduce, "all_gather": all_gather, "reduce_scatter": reduce_scatter, "broadcast": broadcast,
              "rank_rows": rank_rows}
ADD = lambda a, b: a + b
TABLE = {op.name: op for op in [
    *(Op(n, over_ranks(draw), blind="x" if n == "rank_rows" else "") for n, draw in OVER_RANKS.items()),
    *(Op(n, unary(n)) for n in "neg abs tanh relu sigmoid gelu gelu_tanh".split()),
    Op("square", unary("square", most=8.0, grow=lambda m: m * m)),
    Op("stop_gradient", unary("stop_gradient"), blind="x"),
    *(Op(n, unary(n, positive=True, grow=lambda m: max(m, 4))) for n in "sqrt rsqrt reciprocal log".split()),
    Op("exp", unary("exp", most=2.5, grow=lambda m: 12)),
    Op("leaky_relu", unary("leaky_relu", r=leaky_relu)),
    Op("clamp", at_times(unary("clamp", r=bounds), whole_number("clamp", lambda g: [-2, 3]))),
    Op("softplus", unary("softplus", r=beta_and_threshold, grow=lambda m: m + 2)),
    Op("scale", at_times(unary("scale", r=factor, grow=lambda m: 2 * m), whole_number("scale", lambda g: [g.pick([-3, 2])]))),
    Op("offset", unary("offset", r=amount, grow=lambda m: m + 1)),
    Op("cast", cast), Op("dropout", dropout),
    *(Op(n, at_times(binary(n, mag=ADD), whole(n)), "a b") for n in "add sub".split()),
    Op("mul", at_times(binary("mul"), whole("mul")), "a b"), Op("div", binary("div", (False, True), mag=lambda a, b: 4 * a), "a b"),
    Op("pow", binary("pow", (True, False), most=2.5, mag=lambda a, b: 12), "a b"),
    *(Op(n, at_times(binary(n, mag=max), whole(n)), "a b") for n in "maximum minimum".split()),
    *(Op(n, compare(n), "a b", blind="a b") for n in "equal greater less less_equal".split()),
    *(Op(n, unary(n)) for n in "silu mish hardswish erf sin cos atan hardsigmoid relu6 softsign logsigmoid".split()),
    Op("selu", unary("selu", grow=lambda m: m + 2)), Op("prelu", prelu, "x w", flat="w"),
    Op("hardtanh", unary("hardtanh", r=lambda g: list(g.pick([(-1, 1), (-0.5, 1.5), (0, 2)])))),
    *(Op(n, unary(n), blind="x") for n in "floor ceil round trunc sign".split()),
    Op("elu", unary("elu", r=lambda g: [g.pick([1, 0.5, 2])], grow=lambda m: m + 2)),
    Op("tan", unary("tan", most=1.2, grow=lambda m: 3)),
    *(Op(n, unary(n, most=0.9, grow=lambda m: 3)) for n in "asin acos atanh".split()),
    *(Op(n, unary(n, most=2.5, grow=lambda m: 12)) for n in "sinh cosh expm1".split()),
    Op("asinh", unary("asinh")), Op("acosh", above_one("acosh")), Op("log1p", unary("log1p", positive=True)),
    Op("atan2", binary("atan2", (False, True), mag=lambda a, b: 4 * a), "a b"),
    *(Op(n, at_times(binary(n, (False, True), mag=ADD), whole(n, True)), "a b") for n in "fmod remainder".split()),
    *(Op(n, whole(n, True), "a b", blind="a b") for n in "floor_divide trunc_divide".split()),
    *(Op(n, compare(n), "a b", blind="a b") for n in "not_equal greater_equal".split()),
    *(Op(f"bitwise_{n}", whole(f"bitwise_{n}"), "a b", blind="a b") for n in "and or xor right_shift".split()),
    Op("bitwise_left_shift", whole("bitwise_left_shift", mag=5000), "a b", blind="a b"),
    Op("bitwise_not", whole_number("bitwise_not", lambda g: []), blind="x"),
    *(Op(n, logic(n), "a b", blind="a b") for n in "logical_and logical_or logical_xor".split()),
    Op("logical_not", test("logical_not", BOOL), blind="x"),
    *(Op(n, test(n), blind="x") for n in "isnan isinf".split()),
    Op("stack", stack, "first rest"), Op("tile", tile), Op("roll", along("roll", numbers=roll)),
    Op("repeat_interleave", along("repeat_interleave", numbers=repeated)), Op("flip", flip),
    Op("tril", triangle("tril")), Op("triu", triangle("triu")), Op("constant_pad", constant_pad),
    Op("one_hot", one_hot, blind="x"), Op("bincount", bincount, blind="x"),
    Op("gather", gather("gather"), "x ids", blind="ids"), Op("take_along_axis", gather("take_along_axis"), "x ids", blind="ids"),
    Op("index_select", gather("index_select"), "x ids", blind="ids", flat="ids"),
    Op("scatter", scatter("scatter"), "x ids src", blind="ids"), Op("scatter_add", scatter("scatter_add"), "x ids src", blind="ids"),
    Op("index_add", index_add, "x ids src", blind="ids", flat="ids"),
    Op("scatter_reduce", scatter_reduce("scatter_reduce"), "x ids src", blind="ids", uneven=True),
    Op("index_reduce", scatter_reduce("index_reduce"), "x ids src", blind="ids", flat="ids", uneven=True),
    Op("index", index, "x ids", blind="ids", plane="ids"), Op("index_put", index_put, "x values ids", blind="ids", plane="ids"),
    Op("sort", sort("sort")), Op("topk", sort("topk")), Op("argsort", argsort, blind="x"),
    *(Op(n, parts(n)) for n in "split chunk unbind".split()), *(Op(n, axis_of_one(n)) for n in "squeeze unsqueeze".split()),
    *(Op(n, sequence(n), "") for n in "arange linspace eye".split()), Op("constant_tensor", constant_tensor, ""), Op("einsum", einsum, "first rest"),
    Op("where", where, "c a b", blind="c"),
    Op("mean", reduce("mean")), *(Op(n, at_times(reduce(n), reduce(n, dtype=I64))) for n in "amax amin".split()),
    Op("sum", at_times(reduce("sum", mag=lambda m, n: m * n), reduce("sum", dtype=I64))),
    Op("prod", reduce("prod", mag=lambda m, n: m ** min(n, 4))), Op("cumsum", scan("cumsum", lambda m, n: m * n)),
    Op("cumprod", scan("cumprod", lambda m, n: m ** min(n, 4))),
    Op("argmax", arg("argmax"), blind="x"), Op("argmin", arg("argmin"), blind="x"), Op("max", arg("max")), Op("min", arg("min")),
    *(Op(n, reduce(n, dtype=BOOL), blind="x") for n in "any all".split()), Op("std", reduce("std", spread), uneven=True),
    Op("var", reduce("var", correction, mag=lambda m, n: 2 * m * m)), Op("logsumexp", reduce("logsumexp", mag=lambda m, n: m + 7)),
    Op("vector_norm", reduce("vector_norm", order, positive=True, mag=lambda m, n: m * n)),
    Op("reshape", reshape), Op("flatten", flatten), Op("permute", permute), Op("transpose", transpose),
    Op("broadcast_to", broadcast_to), Op("concat", concat, "first rest"), Op("slice", slice_), Op("strided_slice", strided_slice), Op("pad", pad),
    Op("matmul", matmul, "a b"), Op("linear", linear, "x w b", flat="b", plane="w"),
    Op("embedding", embedding, "w ids", blind="ids", plane="w"),
    Op("attention", attention, "q k v"), Op("attention_with", attention_with, "q k v mask"), Op("rotary", rotary),
    Op("lstm", recurrent("lstm", 4), "x w h0 c0", plane="x w h0 c0"),
    Op("gru", recurrent("gru", 3), "x w h0 b", flat="b", plane="x w h0"),
    Op("rnn", recurrent("rnn", 1), "x w h0", plane="x w h0"),
    Op("conv2d", conv("conv2d"), "x w b", flat="b"), Op("conv_transpose2d", conv("conv_transpose2d"), "x w b", flat="b"),
    Op("max_pool2d", pool("max_pool2d")), Op("avg_pool2d", pool("avg_pool2d")),
    Op("adaptive_avg_pool2d", adaptive("adaptive_avg_pool2d")),
    Op("adaptive_max_pool2d", adaptive("adaptive_max_pool2d")),
    Op("conv1d", conv_line("conv1d"), "x w b", flat="b", plane="x w"),
    Op("conv_transpose1d", conv_line("conv_transpose1d"), "x w b", flat="b", plane="x w"),
    Op("max_pool1d", pool_line("max_pool1d"), plane="x"), Op("avg_pool1d", pool_line("avg_pool1d"), plane="x"),
    Op("adaptive_avg_pool1d", adaptive_line("adaptive_avg_pool1d"), plane="x"),
    Op("adaptive_max_pool1d", adaptive_line("adaptive_max_pool1d"), plane="x"),
    Op("conv3d", conv_volume("conv3d"), "x w b", flat="b", plane="x w"),
    Op("conv_transpose3d", conv_volume("conv_transpose3d"), "x w b", flat="b", plane="x w"),
    Op("max_pool3d", pool_volume("max_pool3d"), plane="x"), Op("avg_pool3d", pool_volume("avg_pool3d"), plane="x"),
    Op("adaptive_avg_pool3d", adaptive_volume("adaptive_avg_pool3d"), plane="x"),
    Op("adaptive_max_pool3d", adaptive_volume("adaptive_max_pool3d"), plane="x"),
    Op("interpolate", interpolate), Op("interpolate3d", interpolate3d, plane="x"),
    Op("grid_sample", grid_sample, "x grid"), Op("affine_grid", affine_grid, plane="x"),
    Op("unfold", sliding("unfold")), Op("fold", sliding("fold"), plane="x"),
    Op("pixel_shuffle", shuffle("pixel_shuffle")), Op("pixel_unshuffle", shuffle("pixel_unshuffle")),
    *(Op(n, pad_mode(n)) for n in "reflect_pad replicate_pad circular_pad".split()),
    Op("softmax", softmax("softmax")), Op("log_softmax", softmax("log_softmax")),
    Op("layer_norm", layer_norm, "x w b", flat="w b"), Op("batch_norm", batch_norm),
    Op("batch_norm_eval", batch_norm_eval, "x m v w b", flat="m v w b"),
    Op("rms_norm", rms_norm, "x w", flat="w"), Op("group_norm", channel_norm("group_norm"), "x w b", flat="w b"),
    Op("instance_norm", channel_norm("instance_norm"), "x w b", flat="w b"),
    Op("cross_entropy", cross_entropy, "x t", blind="t", flat="t", plane="x"),
    *(Op(n, class_loss(n), "x t w", blind="t", flat="w") for n in "cross_entropy_with nll".split()),
    Op("soft_cross_entropy", soft_cross_entropy, "x t w", flat="w"),
    Op("l1", elementwise_loss("l1"), "x t"), Op("smooth_l1", elementwise_loss("smooth_l1", beta=[0.5, 2]), "x t"),
    Op("huber", elementwise_loss("huber", delta=[0.5, 2]), "x t"), Op("mse_with", elementwise_loss("mse_with"), "x t"),
    Op("kl_div", elementwise_loss("kl_div", positive=True, log_target=[True]), "x t"),
    Op("bce", weighted_bce("bce"), "x t w", made="x t"), Op("bce_with_logits_with", weighted_bce("bce_with_logits_with"), "x t w p"),
    Op("hinge_embedding", hinge_embedding, "x t", blind="t", made="t"), Op("margin_ranking", margin_ranking, "a b t"),
    Op("cosine_embedding", cosine_embedding, "a b t", blind="t", plane="a b", made="t"),
    Op("triplet_margin", triplet_margin, "a p n", uneven=True),
    Op("cosine_similarity", measured("cosine_similarity"), "a b"), Op("normalize", measured("normalize")),
    Op("bce_with_logits", compared("bce_with_logits"), "x t"), Op("mse", compared("mse"), "x t"),
]}
POINTWISE = set("neg abs square sqrt rsqrt reciprocal exp log tanh sigmoid relu leaky_relu clamp softplus gelu gelu_tanh scale offset "
                "cast stop_gradient dropout add sub mul div pow maximum minimum equal greater where bce_with_logits "
                "silu mish elu hardswish erf sin cos tan asin acos atan sinh cosh asinh acosh atanh expm1 log1p atan2 floor ceil round trunc sign fmod remainder not_equal "
                "floor_divide trunc_divide greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift isnan isinf less less_equal hardsigmoid relu6 softsign "
                "logsigmoid selu prelu hardtanh".split())

# Those without operands, and those that are written into every graph that has the kind.
MAKERS = "input parameter state constant constant_tensor random_uniform random_normal rank world".split()
CALLS = "gradients assign minimize output".split()
