"""generate.py - a random, well-formed training as a case (README.md): one or two graphs over one set of parameters,
optimizers, data, and the configurations under which it is compiled. A function of the seed and of the cell of the
table of coverage that it is to fill.
"""

import random

import ops
from draft import LAYOUTS, MOST_ELEMENTS, Aim, Draft, Value, differentiable
from ops import BOOL, F32, I64

ROUTES = "minimize gradients accumulation forward".split()


class Model:
    def __init__(self, rng):
        self.rng, self.parameters, self.states, self.norms, self.taken = rng, [], [], [], set()
        self.optimizers = {}  # by pattern
        self.batch, self.is_batched = 0, False  # what WEFT_BATCH is bound to; 0: no axis is
        self.ranks = 0  # of a case with ops over ranks, which every configuration has

    def new_parameter(self, shape, positive):
        scope = self.rng.choice(["a", "a", "b", "b/x", "c/y/z"])
        p = {"path": "%s/p%d" % (scope, len(self.parameters)), "shape": list(shape), "positive": positive}
        self.parameters.append(p)
        return p

    def new_norm(self, channels):
        path = "%s/bn%d" % (self.rng.choice("ab"), len(self.norms))
        self.norms.append((path, channels))
        for name, positive in (("weight", True), ("bias", False)):
            self.parameters.append({"path": "%s/%s" % (path, name), "shape": [channels], "positive": positive})
        for name, positive in (("running_mean", False), ("running_var", True)):
            self.states.append({"path": "%s/%s" % (path, name), "shape": [channels], "positive": positive})
        return path


def norm_path(draft, channels):
    """A layer of this graph, or one of another graph's with as many channels."""
    model = draft.model
    known = [p for p, c in model.norms if c == channels and (draft.name, p) not in model.taken]
    path = draft.pick(known) if known and draft.chance(0.5) else model.new_norm(channels)
    model.taken.add((draft.name, path))
    for name in ("weight", "bias"):
        draft.parameters.setdefault("%s/%s" % (path, name), None)  # reached through the layer
    return path


Draft.norm_path = norm_path


def data(rng, shape, dtype=F32, positive=False, below=4):
    n = 1
    for d in shape:
        n *= d
    if below == ops.SIGNS:
        return [rng.choice([-1, 1]) for _ in range(n)]
    if dtype != F32:
        return [rng.randrange(below) for _ in range(n)]
    low, high = (0.5, 2.0) if positive else (-1.6, 1.6)
    return [round(rng.uniform(low, high), 3) or 0.001 for _ in range(n)]


# ---- what gradients pass ----

def parameters_of(node):
    if node["op"] == "parameter":
        return {node["s"]}
    return {node["s"] + "/weight", node["s"] + "/bias"} if node["op"] == "batch_norm" else set()


def producers(draft):
    """The node of each value."""
    return [v.node for v in draft.values]


def reached(draft, value_id, seen=None):
    """Nodes through which the gradient of a value goes; results of `gradients` are not gone into."""
    seen, stack = set() if seen is None else seen, [value_id]
    while stack:
        v = draft.values[stack.pop()]
        if v.node in seen or v.dtype not in ops.FLOATS + (ops.BF16, ops.F16):
            continue
        seen.add(v.node)
        stack += differentiable(draft.nodes[v.node])
    return seen


def trained_by(draft, value_id):
    return set().union(*(parameters_of(draft.nodes[n]) for n in reached(draft, value_id)), set())


# ---- losses ----

def is_small(d, v):
    return d.elements(v.shape) <= MOST_ELEMENTS * 2


def scalar_of(d, v):
    """One number from a value, whose size stays moderate."""
    if v.mag > 6:
        v = d.node("scale", [v], r=[round(4 / v.mag, 4) or 1e-4], shape=v.shape, mag=4.0)
    kind = d.below(6) if is_small(d, v) else 4
    if kind == 0:
        v = d.node("mul", [v, d.input(v.shape)], shape=v.shape, mag=2 * v.mag)
    if kind == 1:
        v = d.node("square", [v], shape=v.shape, mag=v.mag ** 2)
    if kind == 2:
        v = d.node("tanh", [v], shape=v.shape)
    if kind == 3 and len(v.shape) > 1:
        axes = list(range(len(v.shape)))[::-1]
        v = d.node("permute", [v], i=axes, shape=v.shape[::-1], mag=v.mag, view="permuted")
        v = d.node("mul", [v, d.input(v.shape)], shape=v.shape, mag=2 * v.mag)
    if d.chance(0.3) and d.elements(v.shape) < 12:
        return d.node("sum", [v], i=[0], shape=())
    return d.node("mean", [v], i=[0], shape=())


def total(d, terms):
    sum = terms[0]
    for t in terms[1:]:
        sum = d.node("add", [sum, t], shape=())
    return sum


def sinks(d):
    used = {v for n in d.nodes for v in n["in"]}
    return [v for v in d.values if v.id not in used and v.dtype == F32]


# ---- gradients by values ----

def between(d, loss, targets):
    """Nodes that a gradient of the loss by these values goes through."""
    down, through = set(), set()
    for v in d.values:
        if any(k in down for k in differentiable(d.nodes[v.node])):
            down.add(v.id)
            through.add(v.node)
        if v.id in targets:
            down.add(v.id)
    return through & reached(d, loss)


def add_gradients(d, through=None):
    """Gradients of a loss by any values above it, used as outputs and, where their gradients exist, in the loss."""
    ends = [v for v in d.values
            if v.dtype == F32 and not v.is_gradient and not v.is_batched and len(reached(d, v.id)) > 1]
    if through and through.dtype == F32 and not through.is_batched:
        ends = [through]
    if not ends:
        return
    end = d.pick(ends)
    loss = scalar_of(d, end)
    above = [v for v in d.values if v.node in reached(d, end.id) and v.dtype == F32 and not v.is_batched]
    leaves = [v for v in above if not d.nodes[v.node]["in"]]
    targets = [d.pick(leaves if leaves and d.chance(0.4) else above) for _ in range(1 + d.below(3))]
    if through is not None:  # operands of the aimed node, or what they are made of
        mine = [d.values[k] for k in differentiable(d.nodes[through.node])]
        up = [d.values[k] for v in mine for k in differentiable(d.nodes[v.node])]
        mine, up = ([v for v in list if not v.is_batched] for list in (mine, up))
        targets += [d.pick(up)] if up and d.chance(0.5) else []
        targets += mine
    ids = list(dict.fromkeys(v.id for v in targets if v.dtype == F32))[:6]
    if not ids:
        return
    on_path = between(d, loss.id, set(ids))
    d.gradients.append((loss.id, ids, on_path))
    d.nodes.append({"op": "gradients", "in": [loss.id, *ids]})
    results = []
    for k in ids:
        t = d.values[k]
        results.append(d.add_result(t.shape, 4 * t.mag))
    for v in results:
        if is_small(d, v) and d.chance(0.4):
            d.outs.append((v.id, "g%d" % v.id))
        if d.train and d.chance(0.7):
            d.terms.append(scalar_of(d, v))


def add_result(d, shape, mag):
    v = Value(len(d.values), shape, F32, mag, "contiguous", len(d.nodes) - 1)
    v.is_gradient = True
    d.values.append(v)
    return v


Draft.add_result = add_result


# ---- state ----

def add_state(d):
    like = [v for v in d.values if v.dtype == F32 and len(v.shape) < 3 and not v.is_batched]
    if not like:
        return
    v = d.pick(like)
    path = "s/e%d" % len(d.model.states)
    d.model.states.append({"path": path, "shape": list(v.shape), "positive": False})
    read = lambda: d.add({"op": "state", "in": [], "i": list(v.shape), "s": path}, v.shape, F32, 3.0, "contiguous")
    old = read()
    keep = d.node("scale", [old], r=[0.9], shape=v.shape, mag=3)
    new = d.node("add", [keep, d.node("scale", [d.tame(v, False, 4)], r=[0.1], shape=v.shape)], shape=v.shape, mag=3)
    d.nodes.append({"op": "assign", "in": [old.id, new.id]})
    if d.chance(0.6):
        d.terms.append(scalar_of(d, read()))


# ---- graphs ----

def draw_op(d, name, aim):
    before = len(d.nodes)
    y = ops.TABLE[name].draw(d, aim)
    return next((n for n in range(before, len(d.nodes)) if d.nodes[n]["op"] == name), None), y


def draw_nodes(d, most, weights):
    names = list(ops.TABLE)
    while len(d.nodes) < most:
        if d.chance(0.1):
            d.scope = d.pick(["", "a", "b/x", "deep/er"])
        draw_op(d, d.rng.choices(names, weights)[0], Aim(d))


def draw_aim(d, cell):
    """The cell's op first, with its operand in the cell's layout."""
    row, layout, route = cell
    name, k = row
    aim = Aim(d, k, layout, needs_gradient=route != "forward")
    node, y = draw_op(d, name, aim)
    if layout == "twice" and node is not None:
        ids = [v for v in d.nodes[node]["in"] if v >= 0]
        own = d.nodes[node]["in"]
        wanted = own[min(k, len(own) - 1)]
        if wanted >= 0 and own.count(wanted) < 2 and d.values[wanted].dtype == F32:
            d.terms.append(scalar_of(d, d.values[wanted]))
        elif wanted >= 0 and own.count(wanted) < 2:
            other = d.node("cast", [d.values[wanted]], i=[F32], shape=d.values[wanted].shape)
            d.terms.append(scalar_of(d, other))
    return node, y


def draw_graph(rng, model, name, train, cell, most):
    d = Draft(rng, model, name, train)
    d.gradients, d.outs, d.terms, d.mins = [], [], [], []
    weights = [1.0] * len(ops.TABLE)
    if cell:
        node, y = draw_aim(d, cell)
        own = next((v for v in d.values if v.node == node), None)
        if cell[2] == "gradients" and own is not None:
            add_gradients(d, through=own if own.dtype == F32 else y)
    else:
        d.operand(d.shape(d.below(4)))
    draw_nodes(d, most, weights)
    if d.chance(0.3):
        add_gradients(d)
    if train and d.chance(0.12):
        add_state(d)
    d.scope = ""
    ends = sinks(d)
    d.shuffle(ends)
    d.terms += [scalar_of(d, v) for v in ends if v.shape or d.chance(0.9)]
    d.loss = total(d, d.terms) if d.terms else scalar_of(d, d.operand((2, 3)))
    for v in [d.loss] + [d.pick(d.values) for _ in range(2)]:
        if v.dtype in (F32, ops.F64, I64) and is_small(d, v) and v.id not in [k for k, _ in d.outs]:
            d.outs.append((v.id, "o%d" % v.id))
    return d


# ---- optimizers ----

def optimizer(d, name, paths):
    kind = d.pick(["sgd", "sgd", "adam", "adamw"])
    o = {"type": kind, "name": name, "lr": d.pick([0.1, 0.5, 1.0] if kind == "sgd" else [0.01, 0.05])}
    if kind == "sgd" and d.chance(0.5):
        o["momentum"] = 0.9
        if d.chance(0.4):
            o["nesterov"] = True
        elif d.chance(0.5):
            o["dampening"] = 0.3
    if kind != "sgd":
        o["eps"] = d.pick([1e-3, 0.1])
        if d.chance(0.4):
            o["beta1"], o["beta2"] = d.pick([0.5, 0.8]), d.pick([0.9, 0.99])
    if d.chance(0.3) or (kind == "adamw" and d.chance(0.5)):
        o["weight_decay"] = d.pick([0.01, 0.1])
    if d.chance(0.25):
        o["clip_norm"] = d.pick([0.1, 0.5, 2.0])
    if d.chance(0.2):
        path = d.pick(paths)  # a group must match something
        pattern = d.pick([path, "*" + path[-1], path.split("/")[0] + "/*", "*"])
        o["groups"] = [{"pattern": pattern, "lr_scale": d.pick([0.5, 2.0]), "decay_scale": d.pick([0.5, 2.0])}]
    schedule = d.below(8)
    if schedule == 0:
        o.update(schedule=1, step_size=1 + d.below(2), gamma=0.5, warmup_steps=d.below(2))
    if schedule == 1:
        o.update(schedule=2, total_steps=4 + d.below(3), floor=d.pick([0.0, 0.1]), warmup_steps=d.below(3))
    return o


def matches(pattern, path):
    """weft_minimize's patterns: a scope path, or '' for all."""
    return pattern == "" or path == pattern or path.startswith(pattern + "/")


def train_graph(d, model):
    """Minimize calls over disjoint patterns; what a pattern names and the loss does not reach is added to the loss."""
    tops = sorted({p["path"].split("/")[0] for p in model.parameters})
    split = len(tops) > 1 and d.chance(0.3)
    patterns = d.sample(tops, 1 + d.below(len(tops))) if split else [""]
    if not split and d.chance(0.2) and tops:
        patterns = [d.pick(tops)]
    frozen = model.frozen
    for pattern in patterns:
        wanted = {p["path"] for p in model.parameters if matches(pattern, p["path"])} - frozen
        if not wanted:
            continue
        missing = sorted(wanted - trained_by(d, d.loss.id))
        for path in missing:
            p = next(q for q in model.parameters if q["path"] == path)
            d.loss = d.node("add", [d.loss, scalar_of(d, d.use(p))], shape=())
        shared = model.optimizers.get(pattern) if d.chance(0.5) else None  # one state for two graphs
        o = shared or optimizer(d, "%s.%s" % (d.name, pattern or "all"), sorted(wanted))
        model.optimizers[pattern] = o
        d.mins.append({"loss": d.loss.id, "pattern": pattern, **o})
    if d.mins and d.chance(0.9):
        d.outs.append((d.loss.id, "loss"))


# ---- runs and configurations ----

ISAS = [0, 0, 0, 2, 3]


LOW = {"matmul", "einsum", "linear", "conv2d", "conv_transpose2d", "conv3d", "conv_transpose3d", "attention", "attention_with",
       "lstm", "gru", "rnn"}


def configurations(rng, drafts, micro, has_state, quick):
    """The reference, an optimized one and the same unoptimized, at times of another world, precision or number of threads."""
    def one(**o):
        o.setdefault("accumulate", micro)
        return {k: v for k, v in o.items() if v}
    list = [one(isa=1, verify=1), one(isa=rng.choice(ISAS), threads=1)]
    if micro > 1 and not has_state and rng.random() < (0.5 if not quick else 0.3):
        world = rng.choice([w for w in (2, 2, 3, 4) if micro % w == 0])
        list[rng.randrange(2)].update(world=world, accumulate=micro // world, zero=rng.randrange(3),
                                      shard=rng.randrange(2), cap=rng.choice([0, 1e-4, 1e-3]),
                                      serial=int(rng.random() < 0.2), reduce=rng.choice([0, 0, 2]))
    if rng.random() < 0.2:
        is_f16 = rng.random() < 0.4 and all(LOW & {n["op"] for n in d.nodes} for d in drafts if d.mins)
        list.append(one(isa=rng.choice([0, 0, 1]), precision=3 if is_f16 else 2, threads=1))
        if is_f16 and any(d.mins for d in drafts):
            list[-1]["loss_scale"] = 8.0
    if rng.random() < 0.15:
        list[rng.randrange(2)]["via"] = rng.choice([1, 2])
    for c in list:
        c.setdefault("threads", 1 if rng.random() < 0.93 else 2)
    return list + [{**list[1], "unoptimized": 1}]


def runs(rng, drafts, micro, steps, has_state, ranks):
    list = []
    for _ in range(steps):
        for d in drafts:
            trains = bool(d.mins)
            n = micro if trains else ranks or 1
            no_sync = trains and micro > 1 and not ranks and has_state is False and rng.random() < 0.15
            list.append({"graph": d.name, "feeds": [
                {k: data(rng, shape, t, p, b) for k, (t, shape, p, b) in d.feeds.items()} for _ in range(n)],
                **({"no_sync": True} if no_sync else {})})
    return list


def strip(d):
    g = {"name": d.name, "train": d.train, "nodes": d.nodes,
         "outs": [{"id": k, "name": n} for k, n in d.outs], "mins": d.mins}
    if getattr(d, "freeze", None):
        g["freeze"] = d.freeze
    return g


def generate(seed, cell=None, quick=False, alone=False):
    """A case; `cell` ((op, operand), layout, route) is what it should cover. `alone`: without ops over ranks."""
    rng = random.Random(seed)
    model = Model(rng)
    model.frozen = set()
    apart = random.Random("batch %d" % seed)  # numbers of its own: other cases stay as they are
    if apart.random() < 0.15:
        model.batch = apart.choice([2, 3, 5])
    route = cell[2] if cell else None
    micro = 1 if route == "minimize" else rng.choice([2, 2, 3, 4] if route == "accumulation" else [1, 1, 1, 2, 3, 4])
    together = random.Random("ranks %d" % seed)  # likewise
    if not alone and (together.random() < 0.05 or (cell and cell[0][0] in ops.OVER_RANKS)):
        model.ranks = together.choice([2, 2, 3, 4])
        micro = model.ranks * (micro if micro < 3 else 1)
    kind = "eval" if route == "forward" and rng.random() < 0.5 else "train"
    most = 3 + int(rng.random() ** 1.5 * (14 if quick else 22))
    drafts = [draw_graph(rng, model, "t", True, cell if kind == "train" else None, most)]
    if kind == "eval" or rng.random() < 0.15:
        drafts.append(draw_graph(rng, model, "e", False, cell if kind == "eval" else None, 3 + most // 3))
    elif rng.random() < 0.25:
        drafts.append(draw_graph(rng, model, "u", True, None, 3 + most // 2))
    first = drafts[0]
    own = [p for p in first.parameters if p]
    if own and rng.random() < 0.15 and len(own) > 1:
        model.frozen = {rng.choice(own)}
        first.freeze = sorted(model.frozen)
    for d in drafts:
        if d.train:
            train_graph(d, model)
    has_state = bool(model.states) or any(n["op"] == "state" for d in drafts for n in d.nodes)
    if model.ranks and has_state:  # each rank has its own
        return generate(seed, cell, quick, alone=True)
    steps = rng.choice([1, 1, 2, 2, 3] if not quick else [1, 1, 2])
    if any(d.has_rounding for d in drafts):
        steps = 1  # parameters are known to the last bit at the start alone
    case = {"id": seed, "seed": seed % 1000,
            "vars": [{"path": p["path"], "shape": p["shape"], "v": data(rng, p["shape"], positive=p["positive"]),
                      **({"state": True} if p in model.states else {})} for p in model.parameters + model.states],
            "micro": micro, "graphs": [strip(d) for d in drafts],
            "runs": runs(rng, drafts, micro, steps, has_state, model.ranks),
            "configs": configurations(rng, drafts, micro, has_state, quick)}
    if model.ranks:
        case["ranks"] = model.ranks
        for c in case["configs"]:
            c.update(world=model.ranks, accumulate=micro // model.ranks, zero=together.randrange(3),
                     shard=together.randrange(2), cap=together.choice([0, 1e-4, 1e-3]))
    alone = random.Random("manual %d" % seed)  # likewise
    if any(d.mins for d in drafts) and alone.random() < 0.12:
        alone.choice(case["configs"])["manual"] = 1
    if model.is_batched:
        case["batch"], case["bind"] = apart.choice([b for b in (1, 2, 4, 7) if b != model.batch]), model.batch
    return case, covered(drafts, model, micro // (model.ranks or 1))


# ---- coverage ----

def covered(drafts, model, micro):
    """Cells ((op, operand), layout, route) that a case has, once each."""
    cells = set()
    for d in drafts:
        uses = {}
        for n in d.nodes:
            for v in n["in"]:
                uses[v] = uses.get(v, 0) + 1
        trained = {p["path"] for p in model.parameters
                   for m in d.mins if matches(m["pattern"], p["path"])} - model.frozen
        passed = reached(d, d.loss.id) if d.mins else set()
        below = depends(d, trained)
        for number, n in enumerate(d.nodes):
            op = ops.TABLE.get(n["op"])
            if not op:
                continue
            routes = [on for _, ids, on in d.gradients if number in on]
            for k, v in enumerate(n["in"]):
                if v < 0:
                    continue
                operand = min(k, len(op.operands) - 1)
                layouts = [d.values[v].layout] + (["twice"] if uses[v] > 1 else [])
                blind = op.operands[operand] in op.blind
                here = set()
                if number in passed and (blind or v in below):
                    here.add("minimize" if micro == 1 else "accumulation")
                if routes:
                    here.add("gradients")
                if not here:
                    here.add("forward")
                cells |= {((op.name, operand), l, r) for l in layouts for r in here}
    return cells


def depends(d, trained):
    """Values that depend on a trained parameter so that gradients reach it."""
    found = set()
    for v in d.values:
        n = d.nodes[v.node]
        if parameters_of(n) & trained or any(k in found for k in differentiable(n)):
            found.add(v.id)
    return found


def reason(row, layout, route):
    """Why a cell stays empty; None when it must not."""
    op = ops.TABLE[row[0]]
    operand = op.operands[row[1]]
    if layout == "channels_last" and (operand in op.flat or operand in op.plane):
        return "the operand has never four axes"
    if layout == "permuted" and operand in op.flat:
        return "the operand has one axis"
    if layout == "broadcast" and operand in op.flat:
        return "along one axis it is a scalar"
    if route != "forward" and op.blind and set(op.blind) == set(op.operands):
        return "no gradient passes the op"
    if operand in op.made:
        return "the draw makes the operand"
    if route != "forward" and op.uneven and layout in ("scalar", "broadcast"):
        return "equal elements have no gradient"
    return None


def rows():
    return [(name, k) for name, op in ops.TABLE.items() for k in range(len(op.operands))]


def cells():
    return [(row, l, r) for row in rows() for l in LAYOUTS for r in ROUTES if not reason(row, l, r)]
