"""draft.py - a graph that is being drawn: values, and operands of a wanted shape and layout.

The layout of a value is that of the call that made it: "permuted", "sliced", "broadcast", "reshaped" and "scalar" (one
number repeated) for views, "channels_last" for images and what is pointwise in them, "contiguous" for the rest. Which of
these a plan really keeps as strides is the compiler's affair; the point is that each op meets each of them.
"""

import ops
from ops import BOOL, F32, I64

LAYOUTS = "contiguous permuted sliced broadcast reshaped channels_last scalar twice".split()
SIZES = [1, 2, 2, 3, 3, 4, 5, 6, 7]
WIDE = [8, 9, 15, 16, 17, 31, 33]
MOST_ELEMENTS = 700


class Value:
    def __init__(self, id, shape, dtype, mag, layout, node):
        self.id, self.shape, self.dtype, self.mag, self.layout, self.node = id, shape, dtype, mag, layout, node
        self.is_gradient = False  # made by `gradients`, or from such
        self.is_batched = False   # its first axis is WEFT_BATCH: nothing else reads it


class Aim:
    """What a draw is asked for: operand number k in this layout. `k` -1: nothing."""

    def __init__(self, draft, k=-1, layout=None, needs_gradient=False):
        self.draft, self.k, self.layout, self.route_needs_gradient = draft, k, layout, needs_gradient

    def is_twice(self):
        return self.layout == "twice"

    def ndim(self, k, low, high, otherwise=None):
        """How many axes operand k may have for its layout."""
        if k == self.k and self.layout == "channels_last":
            return 4
        least = {"permuted": 2, "sliced": 1, "broadcast": 1, "scalar": 1, "reshaped": 1}
        low = max(low, least.get(self.layout, 0) if k == self.k else 0)
        chosen = low + self.draft.below(max(low, high) - low + 1)
        return chosen if otherwise is None or k == self.k else otherwise

    def __call__(self, k, shape, **how):
        if k != self.k or self.layout == "twice":
            return self.draft.operand(shape, **how)
        v = self.draft.operand(shape, layout=self.layout, must_train=self.route_needs_gradient, **how)
        return v


class Draft:
    def __init__(self, rng, model, name, train):
        self.rng, self.model, self.name, self.train = rng, model, name, train
        self.nodes, self.values, self.feeds, self.parameters = [], [], {}, {}
        self.depth, self.scope, self.has_rounding = 0, "", False

    # ---- chance ----

    def below(self, n):
        return int(self.rng.random() * n)

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, list):
        return list[self.below(len(list))]

    def sample(self, from_, n):
        return self.rng.sample(list(from_), n)

    def shuffle(self, list):
        self.rng.shuffle(list)

    # ---- shapes ----

    def size(self, most=0):
        n = self.pick(WIDE) if not most and self.chance(0.06) else self.pick(SIZES)
        return min(n, most) if most else n

    def elements(self, shape):
        n = 1
        for d in shape:
            n *= d
        return n

    def shape(self, ndim):
        while True:
            shape = tuple(self.size() for _ in range(ndim))
            if self.elements(shape) <= MOST_ELEMENTS:
                return shape

    def broadcast(self, a, b):
        n = max(len(a), len(b))
        a, b = (1,) * (n - len(a)) + tuple(a), (1,) * (n - len(b)) + tuple(b)
        return tuple(max(x, y) for x, y in zip(a, b))

    def narrowed(self, shape, ndim=None):
        """A shape that broadcasts to this one."""
        ndim = min(len(shape), ndim) if ndim is not None else self.below(len(shape) + 1)
        tail = shape[len(shape) - ndim:]
        return tuple(1 if self.chance(0.4) else d for d in tail)

    def broadcasting(self, shape, n, at):
        """n shapes that give this one together; the aimed operand has it whole."""
        full = at.k if 0 <= at.k < n else self.below(n)
        return [shape if k == full or self.chance(0.6) else self.narrowed(shape) for k in range(n)]

    def other_shape(self, shape):
        """Another shape of as many elements."""
        left, axes = self.elements(shape), []
        while left > 1 and len(axes) < 4 and self.chance(0.8):
            divisors = [d for d in range(2, left + 1) if left % d == 0]
            d = self.pick(divisors)
            axes.append(d)
            left //= d
        if left > 1 or not axes:
            axes.append(left)
        if self.chance(0.2) and len(axes) < 5:
            axes.insert(self.below(len(axes) + 1), 1)
        self.shuffle(axes)
        return tuple(axes)

    # ---- nodes ----

    def add(self, entry, shape, dtype, mag, layout):
        self.nodes.append(entry)
        v = Value(len(self.values), tuple(shape), dtype, mag, layout, len(self.nodes) - 1)
        v.is_gradient = any(k >= 0 and self.values[k].is_gradient for k in entry["in"])
        self.values.append(v)
        return v

    def node(self, op, ins, i=None, r=None, s=None, o=None, shape=(), dtype=F32, mag=1.0, view=None, image=False):
        layout = view or "contiguous"
        if op in ops.POINTWISE:
            if any(v.layout == "channels_last" and len(v.shape) == 4 for v in ins):
                layout = "channels_last"
        elif image and len(shape) == 4:
            layout = "channels_last"
        if view == "broadcast" and self.elements(ins[0].shape) == 1:
            layout = "scalar"
        entry = {"op": op, "in": [-1 if v is None else v.id for v in ins]}
        if i:
            entry["i"] = [int(n) for n in i]
        if r:
            entry["r"] = r
        if s:
            entry["s"] = s
        if o is not None:
            entry["o"] = o
        if self.scope:
            entry["scope"] = self.scope
        return self.add(entry, shape, dtype, mag, layout)

    def same(self, op, x, r):
        """A call whose builder gives its operand back: a node of its own in the case, with the operand's layout."""
        return self.add({"op": op, "in": [x.id], "r": r}, x.shape, x.dtype, x.mag, x.layout)

    def sliced(self, x, axis, begin, end):
        shape = tuple(end - begin if k == axis else d for k, d in enumerate(x.shape))
        last = 2 ** 63 - 1 if end == x.shape[axis] and self.chance(0.3) else end
        if begin and self.chance(0.2):
            begin -= x.shape[axis]
        named = axis - len(x.shape) if self.chance(0.2) else axis
        return self.node("slice", [x], i=[named, begin, last], shape=shape, mag=x.mag, dtype=x.dtype, view="sliced")

    # ---- leaves ----

    def parameter(self, shape, positive=False):
        known = [p for p in self.model.parameters if p["shape"] == list(shape) and p["positive"] >= positive]
        p = self.pick(known) if known and self.chance(0.3) else self.model.new_parameter(shape, positive)
        return self.use(p)

    def use(self, p):
        if self.parameters.get(p["path"]):
            return self.parameters[p["path"]]
        v = self.add({"op": "parameter", "in": [], "i": p["shape"], "s": p["path"]}, p["shape"], F32, 2.0, "contiguous")
        self.parameters[p["path"]] = v
        return v

    def input(self, shape, dtype=F32, positive=False, below=4):
        name = "x%d" % len(self.feeds)
        self.feeds[name] = (dtype, tuple(shape), positive, below)
        return self.add({"op": "input", "in": [], "i": [dtype, *shape], "s": name}, shape, dtype, 2.0, "contiguous")

    def random(self, shape):
        if self.chance(0.5):
            return self.node("random_uniform", [], i=shape, r=[-1.0, 1.5], shape=shape, mag=1.5)
        return self.node("random_normal", [], i=shape, r=[0.5, 1.0], shape=shape, mag=3.0)

    def leaf(self, shape, dtype, positive, below, must_train):
        if dtype != F32:
            return self.integers(shape, dtype, below)
        if must_train or (self.train and self.chance(0.6)) or self.chance(0.3):
            return self.parameter(shape, positive)
        if self.chance(0.08) and not positive:
            return self.random(shape) if self.train and self.chance(0.6) else self.node(
                "constant", [], i=[F32, *shape], r=[self.pick([0.5, -1.5, 2.0, 1.0])], shape=shape, mag=2.0)
        return self.batched(shape, positive) if self.is_batched() else self.input(shape, F32, positive)

    def is_batched(self):
        """A case that is built for one batch and bound to another has some of its inputs over batches."""
        return self.model.batch > 0 and self.chance(0.5)

    def batched(self, shape, positive):
        """The mean over a batch that is not known when the model is built: nothing else has its axis."""
        batch = (self.model.batch, *shape)
        self.model.is_batched = True
        x = self.input(batch, F32, positive)
        self.nodes[-1]["i"][1] = -1
        x.is_batched = True
        if self.chance(0.5):
            x = self.node("mul", [x, self.parameter(shape, positive)], shape=batch, mag=4.0)
        elif not positive and self.chance(0.5):
            x = self.node("tanh", [x], shape=batch)
        x.is_batched = True
        return self.node("mean", [x], i=[0, 0], shape=tuple(shape), mag=x.mag)

    def integers(self, shape, dtype, below):
        if dtype == BOOL and self.chance(0.4):
            return self.node("greater", [self.operand(shape), self.operand(self.narrowed(shape))], shape=shape, dtype=BOOL)
        if dtype == BOOL and self.chance(0.3):
            return self.node("cast", [self.input(shape, I64, below=2)], i=[BOOL], shape=shape, dtype=BOOL)
        if dtype == I64 and self.chance(0.1) and below > 1:
            axis = self.below(len(shape) + 1)
            x = self.operand(shape[:axis] + (below,) + shape[axis:])
            return self.node("argmax", [x], i=[axis, 0], shape=shape, dtype=I64)
        return self.input(shape, dtype, below=2 if dtype == BOOL else below)

    # ---- operands ----

    def operand(self, shape, layout=None, positive=False, most=30.0, dtype=F32, below=4, must_train=False):
        """A value of this shape: one that is there, or a new one, as a view or an image where `layout` says so."""
        self.depth += 1
        if layout is None and self.depth < 4 and self.chance(0.35):
            layout = self.pick(self.fitting(shape))
        v = self.in_layout(tuple(shape), layout, positive, most, dtype, below, must_train)
        self.depth -= 1
        return v

    def fitting(self, shape):
        list = ["contiguous", "reshaped"]
        if len(shape) > 0:
            list += ["sliced", "broadcast", "scalar"]
        if len(shape) > 1:
            list += ["permuted", "permuted"]
        return list + (["channels_last"] * 2 if len(shape) == 4 else [])

    def in_layout(self, shape, layout, positive, most, dtype, below, must_train):
        how = dict(positive=positive, most=most, dtype=dtype, below=below, must_train=must_train)
        make = getattr(self, "as_" + layout, None) if layout else None
        if make:
            return make(shape, how)
        have = [v for v in self.values if v.shape == shape and v.dtype == dtype and v.layout == "contiguous"
                and dtype == F32 and not v.is_batched and (not must_train or v.id in self.training())]
        if have and self.chance(0.45):
            return self.tame(self.pick(have), positive, most)
        v = self.leaf(shape, dtype, positive, below, must_train)
        return self.tame(v, positive and v.node >= 0 and not self.is_positive(v), most) if dtype == F32 else v

    def training(self):
        """Values that a gradient by a parameter passes."""
        found = set()
        for v in self.values:
            n = self.nodes[v.node]
            if n["op"] == "parameter" or (n["op"] in ops.TABLE and v.dtype in ops.FLOATS
                                          and any(k in found for k in differentiable(n))):
                found.add(v.id)
        return found

    def is_positive(self, v):
        n = self.nodes[v.node]
        if n["op"] == "parameter":
            return next(p for p in self.model.parameters if p["path"] == n["s"])["positive"]
        return n["op"] == "input" and self.feeds[n["s"]][2]

    def is_data(self, v):
        """An input or a parameter, or a view of one."""
        n = self.nodes[v.node]
        if n["op"] in ("reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "slice", "broadcast_to"):
            return self.is_data(self.values[n["in"][0]])
        return n["op"] in ("input", "parameter")

    def tame(self, x, positive, most):
        if positive:
            f = self.pick(["square", "sigmoid", "abs"])
            x = x if f != "square" or x.mag < 4 else self.node("tanh", [x], shape=x.shape)
            y = self.node(f, [x], shape=x.shape, mag=x.mag ** 2 if f == "square" else x.mag)
            x = self.node("offset", [y], r=[0.5], shape=x.shape, mag=y.mag + 0.5)
        if x.mag > most:
            x = self.node("scale", [x], r=[round(most / x.mag, 3) or 0.001], shape=x.shape, mag=most)
        return x

    def as_permuted(self, shape, how):
        axes = list(range(len(shape)))
        self.shuffle(axes)
        if axes == sorted(axes):
            axes.reverse()
        inner = [0] * len(shape)
        for k, a in enumerate(axes):
            inner[a] = shape[k]
        x = self.operand(inner, **how)
        return self.node("permute", [x], i=axes, shape=shape, mag=x.mag, dtype=x.dtype, view="permuted")

    def as_sliced(self, shape, how):
        axis, before, after = self.below(len(shape)), self.below(3), self.below(3)
        whole = tuple(d + (before + after) * (k == axis) for k, d in enumerate(shape))
        return self.sliced(self.operand(whole, **how), axis, before, before + shape[axis])

    def as_broadcast(self, shape, how):
        inner = self.narrowed(shape)
        if inner == shape:
            k = self.below(len(shape))
            inner = shape[:k] + (1,) + shape[k + 1:]
        x = self.operand(inner, **how)
        return self.node("broadcast_to", [x], i=list(shape), shape=shape, mag=x.mag, dtype=x.dtype, view="broadcast")

    def as_scalar(self, shape, how):
        x = self.operand((1,) * self.pick([0, 0, len(shape)]), **how)
        return self.node("broadcast_to", [x], i=list(shape), shape=shape, mag=x.mag, dtype=x.dtype, view="broadcast")

    def as_reshaped(self, shape, how):
        x = self.operand(self.other_shape(shape), **how)
        return self.node("reshape", [x], i=list(shape), shape=shape, mag=x.mag, dtype=x.dtype, view="reshaped")

    def as_channels_last(self, shape, how):
        """An image out of an op on images; what is not f32 is made pointwise from one."""
        if how["dtype"] == BOOL:
            return self.node("greater", [self.as_channels_last(shape, {**how, "dtype": F32}), self.operand(())],
                             shape=shape, dtype=BOOL)
        if how["dtype"] != F32:
            return self.of_integers(shape, how)
        n, c, h, w = shape
        kind = self.pick(["conv2d", "conv2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"])
        if kind == "conv2d":
            inner, k = self.pick([1, 2, 3]), self.pick([1, 3])
            ins = [self.operand((n, inner, h, w), must_train=how["must_train"]), self.operand((c, inner, k, k)), None]
            v = self.node(kind, ins, i=[1, 1, k // 2, k // 2, 1, 1, 1, 0, 0], shape=shape, image=True, mag=6.0)
        elif kind == "adaptive_avg_pool2d":
            x = self.operand((n, c, h + self.below(3), w + self.below(3)), must_train=how["must_train"])
            v = self.node(kind, [x], i=[h, w], shape=shape, image=True, mag=x.mag)
        else:
            x = self.operand((n, c, h + 1, w), must_train=how["must_train"])
            v = self.node(kind, [x], i=[2, 1, 1, 1, 0, 0], shape=shape, image=True, mag=x.mag)
        return self.tame(v, how["positive"], how["most"])

    def of_integers(self, shape, how):
        x = self.as_channels_last(shape, {**how, "dtype": F32})
        bit = self.node("greater", [x, self.operand(()) if how["below"] > 1 else x], shape=shape, dtype=BOOL)
        return self.node("cast", [bit], i=[how["dtype"]], shape=shape, dtype=how["dtype"])


def differentiable(node):
    """Operands that a gradient passes."""
    op = ops.TABLE.get(node["op"])
    if op is None or node["op"] in ("stop_gradient",):
        return []
    return [v for k, v in enumerate(node["in"]) if v >= 0 and op.operands[min(k, len(op.operands) - 1)] not in op.blind]
