"""Ops and optimizers of a program, as Python functions (weft/op.h, weft/train.h)."""
import types

from ._arrays import memory_of_c
from ._build import _call, _Held, _values, failed, place
from ._handles import Borrowed, Handle
from ._lib import NULL, Error, call, callback, dtype_word, each, ffi, lib, make, text, word
from ._structs import no_such
from .model import Graph, Model, Value


def _borrowed(pointer, graphs):
    """A value that C passes to a function of the program. Its graph may be of a copy that the compiler has made of the model."""
    if pointer == NULL:
        return None
    graph = lib.weft_value_graph(pointer)
    key = int(ffi.cast("intptr_t", graph))
    if key not in graphs:
        model = Model.__new__(Model)
        model._owned, model._graphs = Borrowed(lib.weft_graph_model(graph), None), {}
        graphs[key] = Graph(graph, model)
    return Value(pointer, graphs[key])


def _pointer(value, what):
    if value is not None and not isinstance(value, Value):
        raise Error("argument", f"{what}: it is a {type(value).__name__}, and a value of the graph is needed")
    return NULL if value is None else value.pointer


def _listed(given, what):
    if not isinstance(given, (list, tuple)):
        raise Error("argument", f"{what} returns a {type(given).__name__}: a list is needed")
    return given


def _called(**functions):
    """Refuses what is no function."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise Error("argument", f"{name} is a {type(function).__name__}: a function is needed")


class _Slots(dict):
    """The slots of an update, which has no others."""

    def __missing__(self, name):
        raise no_such("the optimizer has no slot or number", name, self)

    def __setitem__(self, name, value):
        super().__setitem__(name if name in self else self[name], value)


class _Given(_Slots):
    """The numbers of an update, which nothing replaces."""

    def __setitem__(self, name, value):
        raise Error("argument", f"u.numbers[{name!r}]: it is given: only u.parameter and the values of u.slots are replaced")


class _Update(types.SimpleNamespace):
    """What build(u) gets: it replaces u.parameter, and the values of u.slots."""

    def __setattr__(self, name, value):
        if name not in vars(self):
            raise no_such("the update of an optimizer has no", name, vars(self))
        if name == "slots":
            raise Error("argument", 'u.slots: it takes one value at a time: u.slots["momentum_buffer"] = ...')
        if name != "parameter":
            raise Error("argument", f"u.{name}: it is given: only u.parameter and the values of u.slots are replaced")
        super().__setattr__(name, value)


def _building(name):
    """`failed` of a callback that builds: what it raises becomes the error of the model whose value `name` of its argument is."""
    def failed(said, arguments):
        structure = next(iter(arguments.values()), None)
        if structure is not None:
            first = getattr(structure, name)
            lib.weft_graph_fail(lib.weft_value_graph(first if name == "parameter" else first[0]), lib.WEFT_DATA, text(said))
    return failed


# ---- optimizers ----

def define_optimizer(model, type, build, slots=None, numbers=None):
    """Defines a type of optimizer for minimize() of this model.

    slots: {"momentum_buffer": 0}, what each parameter keeps, with its first value
    numbers: {"momentum": 0.9}, fields of Optimizer that it reads, with their defaults
    What build raises comes out of minimize(), which calls it.
    build(u): puts new values in the place of u.parameter and u.slots["momentum_buffer"] from u.gradient, u.lr, u.step, u.weight_decay and
    u.numbers["momentum"]; x times one of these numbers is u.scale(x, number)
    """
    slots, numbers, keep = slots or {}, numbers or {}, []

    _called(build=build)
    if len(slots) > lib.WEFT_MAX_SLOTS or len(numbers) > lib.WEFT_MAX_NUMBERS:
        raise Error("argument", f"{type}: at most {lib.WEFT_MAX_SLOTS} slots and {lib.WEFT_MAX_NUMBERS} numbers")

    def builds(update):
        graphs: dict = {}
        value = {n: _borrowed(getattr(update, n), graphs) for n in ("parameter", "gradient", "lr", "step", "weight_decay")}
        u = _Update(**value, slots=_Slots({n: _borrowed(update.slots[i], graphs) for i, n in enumerate(slots)}),
                    numbers=_Given({n: _borrowed(update.numbers[i], graphs) for i, n in enumerate(numbers)}),
                    scale=lambda x, number: Value(lib.weft_update_scale(x.pointer, number.pointer), x.graph))
        build(u)
        update.parameter = _pointer(u.parameter, f"optimizer {type}: u.parameter")
        for i, n in enumerate(slots):
            update.slots[i] = _pointer(u.slots[n], f"optimizer {type}: u.slots[{n!r}]")

    made = ffi.new("weft_optimizer_definition *")
    made.build = builds = callback("void(weft_update *)", builds, _building("parameter"))
    keep = [text(type)] + [text(n) for n in (*slots, *numbers)]
    made.type = keep[0]
    for i, first in enumerate(slots.values()):
        made.slots[i].name, made.slots[i].initial = keep[1 + i], first
    for i, default in enumerate(numbers.values()):
        made.numbers[i].field, made.numbers[i].value = keep[1 + len(slots) + i], default
    lib.weft_model_at(model.pointer, *place())
    model._builders = getattr(model, "_builders", []) + [(builds, keep)]  # minimize() calls it
    if lib.weft_define_optimizer(model.pointer, made):
        failed(model)


# ---- ops ----

def _numbers(run, reals, integers):
    return {n: run.reals[i] for i, n in enumerate(reals)} | {n: run.integers[i] for i, n in enumerate(integers)}


def _saying(result):
    """`failed` of a callback whose structure has a place for a sentence: it returns `result`."""
    def failed(said, arguments):
        structure = next(iter(arguments.values()), None)
        if structure is not None:
            encoded = said.encode("utf-8", "replace")[:lib.WEFT_OP_WHY - 1]
            ffi.memmove(structure.why, encoded + b"\0", len(encoded) + 1)
        return result
    return failed


class OpSet(Handle):
    """Ops of a program, for the models that are made or loaded with it: ops = weft.OpSet(); weft.Model("m", ops=ops)."""

    def __init__(self):
        super().__init__(make(lib.weft_op_set_new, NULL), lib.weft_op_set_free, keep := [])
        self._keep = keep

    def define(self, name, kernel, operands=1, results=1, reals=None, integers=None, infer=None, gradient=None):
        """Defines an op, "lab.shrink": weft.call_op("lab.shrink", [x], threshold=0.1) builds it.

        kernel(operands, results, **numbers): reads the arrays of the operands and fills those of the results. Equal operands must give equal
        bits. It runs on any thread, under Python's lock; the arrays are valid during the call
        reals, integers: {"threshold": 0.5}, numbers of a call with their defaults
        infer(types, **numbers): a list of ("f32", shape) of the results, from that of the operands; it raises what is wrong. None: all are
        f32 of one shape
        gradient(g): returns a value for each operand, or None, from g.operands, g.results, g.result_gradients and g.wanted. None: no gradient
        """
        reals, integers = reals or {}, integers or {}
        made, keep = ffi.new("weft_op_definition *"), [text(n) for n in (name, *reals, *integers)]

        def runs(run):
            into = tuple(memory_of_c(run.results[i].data, run.results[i].type, True) for i in range(results))  # a tuple: a result is filled, not replaced
            if kernel([memory_of_c(run.operands[i].data, run.operands[i].type, False) for i in range(operands)], into, **_numbers(run, reals, integers)) is not None:
                raise Error("argument", f"{name}: its kernel returns something: it fills results[0][...] instead")
            return 0

        def infers(t):
            given = [(dtype_word(t.operands[i].dtype), tuple(t.operands[i].shape[0:t.operands[i].ndim])) for i in range(operands)]
            found = _listed(infer(given, **_numbers(t, reals, integers)), f"{name}: infer")
            if len(found) != results:
                raise Error("argument", f"{name}: infer gives {len(found)} types for {results} results")
            for i, (dtype, shape) in enumerate(found):
                if len(shape) > lib.WEFT_MAX_NDIM:
                    raise Error("shape", f"{name}: {len(shape)} axes, and {lib.WEFT_MAX_NDIM} are the most")
                t.results[i].dtype, t.results[i].ndim = word("weft_dtype", dtype), len(shape)
                t.results[i].shape[0:len(shape)] = list(shape)
            return True

        def gradients(g):
            graphs: dict = {}
            given = types.SimpleNamespace(
                operands=[_borrowed(g.operands[i], graphs) for i in range(operands)], results=[_borrowed(g.results[i], graphs) for i in range(results)],
                result_gradients=[_borrowed(g.result_gradients[i], graphs) for i in range(results)], wanted=list(g.wanted[0:operands]),
                **_numbers(g, reals, integers))
            found = _listed(gradient(given), f"{name}: gradient")
            if len(found) != operands:
                raise Error("argument", f"{name}: gradient gives {len(found)} values for {operands} operands")
            for i, value in enumerate(found):
                g.gradients[i] = _pointer(value, f"{name}: the gradient by operand {i}")

        _called(kernel=kernel, infer=infer, gradient=gradient)
        if not 1 <= operands <= lib.WEFT_MAX_OP_OPERANDS or not 1 <= results <= lib.WEFT_MAX_OP_RESULTS or max(len(reals), len(integers)) > lib.WEFT_MAX_OP_NUMBERS:
            raise Error("argument", f"{name}: too many or too few operands, results or numbers: 1 to {lib.WEFT_MAX_OP_OPERANDS} of each")
        runs = callback("weft_status(weft_op_run *)", runs, _saying(lib.WEFT_DATA))
        infers = callback("bool(weft_op_types *)", infers, _saying(False))
        gradients = callback("void(weft_op_gradient *)", gradients, _building("operands"))
        made.name, made.n_operands, made.n_results, made.kernel = keep[0], operands, results, runs
        if infer:
            made.infer = infers
        if gradient:
            made.gradient = gradients
        for i, default in enumerate(reals.values()):
            made.numbers.reals[i].name, made.numbers.reals[i].value = keep[1 + i], default
        for i, default in enumerate(integers.values()):
            made.numbers.integers[i].name, made.numbers.integers[i].value = keep[1 + len(reals) + i], default
        self._keep += [keep, runs, infers, gradients]
        call(lib.weft_define_op, self.pointer, made)


def call_op(name, operands, **numbers):
    """Calls an op of the model's OpSet: its result, or a tuple where it has several."""
    operands = list(operands)
    made, keep = ffi.new("weft_op_numbers *"), [text(n) for n in numbers]
    at = {"reals": 0, "integers": 0}
    for key, (n, value) in zip(keep, numbers.items()):
        kind = "integers" if isinstance(value, int) else "reals"
        if at[kind] == lib.WEFT_MAX_OP_NUMBERS:
            raise Error("argument", f"call_op: more than {lib.WEFT_MAX_OP_NUMBERS} {kind}")
        into = getattr(made, kind)[at[kind]]
        into.name, into.value = key, value
        at[kind] += 1
    graph, first = _call("weft_call_op", (text(name), *_values(operands), _Held(made, keep)), [])
    if first == NULL:
        failed(graph.model)
    node = lib.weft_value_node(first)
    results = tuple(Value(r, graph) for r in each(lambda i: lib.weft_node_result(node, i)))
    return results[0] if len(results) == 1 else results
