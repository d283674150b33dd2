"""Models, graphs and values: what a program builds."""
import contextlib
import operator
import os
from typing import Callable, ClassVar, Sequence, Tuple, Union

from . import _ops
from ._build import _build, _numbers, failed, place
from ._handles import Handle
from ._lib import NULL, Error, call, dtype_word, each, ffi, lib, make, string, taken, text, word
from ._structs import near, no_such, structure

Init = Union[str, Tuple]  # initial values: "zeros", ("normal", 0, 0.02)
Numbers = Union[int, Sequence[Union[int, str]], None]  # a shape, in which "batch" is the batch, or axes
DType = object  # "f32", numpy.float32, torch.float32

class Value(_ops.OfValues):
    """The result of an op in a graph. Every op and layer is a method: x.relu(), x.linear(10, "fc"). Operators take numbers, too."""
    __slots__ = ("_pointer", "graph")
    __array_ufunc__ = None  # array * value is value.__rmul__(array)

    def __init__(self, pointer, graph):
        self._pointer, self.graph = pointer, graph

    @property
    def pointer(self):
        self.graph.model.held()  # it owns the value
        return self._pointer

    @property
    def dtype(self):
        """The element type by its word: "f32"."""
        return dtype_word(lib.weft_value_dtype(self.pointer))

    @property
    def ndim(self):
        return lib.weft_ndim(self.pointer)

    @property
    def shape(self):
        """The lengths of the axes; that of the batch is the model's batch."""
        return tuple(lib.weft_dim(self.pointer, i) for i in range(self.ndim))

    @property
    def is_float(self):
        return self.dtype in ("f32", "f64", "bf16", "f16")

    def __repr__(self):
        return f"<weft.Value {self.dtype}[{','.join(map(str, self.shape))}] of {self.graph.name}>"

    def output(self, name):
        """Makes the value an output of the graph: a run can fetch it, and a training reports it if it is one number. Returns it."""
        lib.weft_at(self.pointer, *place())
        lib.weft_output(self.pointer, text(name))
        return self.graph.model._ok(self)

    def scope(self, name):
        """Graph.scope() of its graph."""
        return self.graph.scope(name)

    def detach(self):
        """The value, through which no gradient flows: stop_gradient()."""
        return self.stop_gradient()

    def numeral(self, number):
        """A number as a value of this type, [], to compute with."""
        return self.graph.constant(self.dtype, (), number)

    # ---- operators ----

    def _with(self, op, other, swapped=False):
        if isinstance(other, (int, float)):
            other = self.numeral(other)
        elif not isinstance(other, Value):
            other = self.graph.tensor(other, self.dtype)
        return op(other, self) if swapped else op(self, other)

    def __neg__(self):
        return _ops.neg(self)

    def __abs__(self):
        return _ops.abs(self)

    def __add__(self, other):
        return _ops.offset(self, other) if isinstance(other, (int, float)) else self._with(_ops.add, other)

    __radd__ = __add__

    def __sub__(self, other):
        return _ops.offset(self, -other) if isinstance(other, (int, float)) else self._with(_ops.sub, other)

    def __rsub__(self, other):
        return _ops.offset(_ops.neg(self), other) if isinstance(other, (int, float)) else self._with(_ops.sub, other, True)

    def __mul__(self, other):
        return _ops.scale(self, other) if isinstance(other, (int, float)) else self._with(_ops.mul, other)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self._with(_ops.div, other)

    def __rtruediv__(self, other):
        return self._with(_ops.div, other, True)

    def __floordiv__(self, other):
        return self._with(_ops.floor_divide, other)

    def __rfloordiv__(self, other):
        return self._with(_ops.floor_divide, other, True)

    def __rmod__(self, other):
        return self._with(_ops.remainder, other, True)

    def __mod__(self, other):
        return self._with(_ops.remainder, other)

    def __pow__(self, other):
        return _ops.square(self) if isinstance(other, (int, float)) and other == 2 else self._with(_ops.pow, other)

    def __rpow__(self, other):
        return self._with(_ops.pow, other, True)

    def __matmul__(self, other):
        return _ops.matmul(self, other)

    def __lt__(self, other):
        return self._with(_ops.less, other)

    def __le__(self, other):
        return self._with(_ops.less_equal, other)

    def __gt__(self, other):
        return self._with(_ops.greater, other)

    def __ge__(self, other):
        return self._with(_ops.greater_equal, other)

    def __eq__(self, other):
        return self._with(_ops.equal, other)

    def __ne__(self, other):
        return self._with(_ops.not_equal, other)

    __hash__ = object.__hash__

    def __bool__(self):
        raise Error("argument", "a value has no numbers while a graph is built: write where(condition, a, b) instead of if")

    def __iter__(self):
        raise Error("argument", "a value is not a list: unbind(n, axis) gives its parts")

    def __getitem__(self, index):
        """x[1:5], x[:, -1], x[..., None], as in NumPy: slices, whole numbers, None and "..."."""
        parts = index if isinstance(index, tuple) else (index,)
        if any(p is Ellipsis for p in parts):
            at = next(i for i, p in enumerate(parts) if p is Ellipsis)
            given = builtin_sum(p is not None and p is not Ellipsis for p in parts)
            parts = parts[:at] + (slice(None),) * (self.ndim - given) + parts[at + 1:]
        x, axis = self, 0
        for p in parts:
            if p is None:
                x = _ops.unsqueeze(x, axis)
                axis += 1
            elif isinstance(p, slice):
                if p.step not in (None, 1):
                    x = _ops.strided_slice(x, axis, p.start or 0, p.stop, p.step)
                elif p != slice(None):
                    x = _ops.slice(x, axis, p.start or 0, p.stop)
                axis += 1
            else:
                if isinstance(p, (bool, float, str)):
                    raise Error("argument", f"[{p!r}]: slices, whole numbers, None and ... are taken; index() takes values")
                at = operator.index(p)
                x = _ops.squeeze(_ops.slice(x, axis, at, at + 1 if at != -1 else None), axis)
        return x


builtin_sum = sum


class Graph(_ops.OfGraphs):
    """A static graph of ops within a model: inputs, ops, outputs, and what it minimizes."""

    def __init__(self, pointer, model):
        self._pointer, self.model = pointer, model

    @property
    def pointer(self):
        self.model.held()  # it owns the graph
        return self._pointer

    def __repr__(self):
        return f"<weft.Graph {self.name}>"

    @property
    def name(self):
        for i in range(lib.weft_graph_count(self.model.pointer)):
            if lib.weft_model_graph(self.model.pointer, i) == self.pointer:
                return string(lib.weft_graph_name(self.model.pointer, i))

    @property
    def is_train(self):
        """Whether it is in training mode: dropout drops, batch_norm uses the batch's statistics."""
        return lib.weft_graph_mode(self.pointer) == lib.WEFT_TRAIN

    def _value(self, pointer):
        return Value(pointer, self) if pointer != NULL else self.model._ok(None)

    def input(self, name, dtype, shape):
        """An input that each run must feed: g.input("image", "u8", ["batch", 28, 28])."""
        return _build("weft_input", self, text(name), word("weft_dtype", dtype), *_numbers(list(shape)))

    def parameter(self, name, shape, init="zeros"):
        """The f32 parameter `name` in the current scope, found or made. `init` is "zeros", ("normal", mean, std) ... (weft_init_kind)."""
        return _build("weft_parameter_in", self, text(name), *_numbers(list(shape)), _init(init))

    def state(self, name, shape=(), init="zeros", dtype="f32"):
        """The state `name` in the current scope, f32 or i64, found or made: only Model.assign() changes it."""
        return _build("weft_state_in", self, text(name), word("weft_dtype", dtype), *_numbers(list(shape)), _init(init))

    def tensor(self, array, dtype=None):
        """A constant with the numbers of an array: NumPy, torch, or nested lists. At most 32 MiB."""
        from ._arrays import as_array
        array, name = as_array(array, dtype, "tensor")
        return _build("weft_constant_tensor", self, word("weft_dtype", name), *_numbers(list(array.shape)), ffi.from_buffer(array) if array.size else NULL)

    def value(self, path):
        """What scope `path` passes on: "encoder/layer1"."""
        return self._value(lib.weft_graph_value(self.pointer, text(path)))

    def value_of(self, path):
        """The parameter or state made under `path`, in any graph: the value at this place."""
        lib.weft_graph_at(self.pointer, *place())
        return self._value(lib.weft_value_of(self.pointer, text(path)))

    @contextlib.contextmanager
    def scope(self, name):
        """with g.scope("generator"): what is built within has its parameters under this name. "a/b" is a scope within a scope."""
        entered = 0
        try:
            for part in str(name).split("/"):
                lib.weft_graph_at(self.pointer, *place())
                if lib.weft_graph_scope_enter(self.pointer, text(part)) == NULL:
                    failed(self.model)
                entered += 1
            yield self
        finally:
            for _ in range(entered):
                lib.weft_scope_leave(self.pointer)

    def inputs(self):
        """The inputs so far: a list of Port."""
        return _ports(lambda i, port: lib.weft_graph_input(self.pointer, i, port))


def _init(init):
    from ._structs import init as made
    return made(init)[0]


class Port:
    """An input or output: name, dtype, shape, bytes, and whether an axis is the batch."""
    __slots__ = ("name", "dtype", "shape", "bytes", "has_batch")

    def __init__(self, port):
        self.name, self.dtype = string(port.name), dtype_word(port.dtype)
        self.shape, self.bytes, self.has_batch = tuple(port.shape[0:port.ndim]), port.bytes, port.has_batch

    def __repr__(self):
        return f"{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"


def _ports(at):
    port = ffi.new("weft_port *")
    return [Port(port) for _ in each(lambda i: at(i, port))]


class _Graphs(dict):
    """Graphs by their names."""

    def __missing__(self, name):
        raise KeyError(str(no_such("the model has no graph", name, self)))


class Model(Handle):
    """Parameters, state, and the static graphs that use them.

    m = weft.Model("gan", batch=64)
    g = m.graph("d_step", train=True)
    """
    from_torch: ClassVar[Callable[..., "Graph"]]  # torch.py has it

    def __init__(self, name="model", batch=None, ops=None, *, _pointer=None):
        pointer = lib.weft_model_new_in(text(name), _env(ops)) if _pointer is None else _pointer
        if pointer == NULL:
            raise Error("memory", "model: out of memory")
        super().__init__(pointer, lib.weft_model_free, ops)
        self._graphs = {}
        self._ops = ops
        self._batch = batch
        self._begin = {}  # path -> tensor of a module, with which stores begin
        self._unfinished = set()  # graphs whose from_torch() failed
        self._examples = {}  # graph of a module without a batch axis -> the lengths of its inputs' first axes, as the examples had them
        self.other_names = {}  # names of a module's state_dict that have no value of their own here: tied ones and constants
        self._ok(None)
        if batch is not None:
            lib.weft_model_at(self.pointer, *place())
            lib.weft_model_set_batch(self.pointer, batch)
            self._ok(None)

    @property
    def name(self):
        return string(lib.weft_model_name(self.pointer))

    def __repr__(self):
        return f"<weft.Model {self.name}: {', '.join(self.graphs)}>"

    def _ok(self, result):
        """The result, unless the last call has left an error."""
        if lib.weft_model_error(self.pointer).status:
            failed(self)
        return result

    def graph(self, name, train=False):
        """A new graph. In training mode dropout drops, and batch_norm uses the batch's statistics."""
        lib.weft_model_at(self.pointer, *place())
        made = lib.weft_graph_new(self.pointer, text(name), lib.WEFT_TRAIN if train else lib.WEFT_EVAL)
        if made == NULL:
            failed(self)
        return self._graph(made)

    def _graph(self, pointer):
        key = int(ffi.cast("intptr_t", pointer))
        return self._graphs.setdefault(key, Graph(pointer, self))

    @property
    def graphs(self):
        """The graphs by their names, in the order of making."""
        count = lib.weft_graph_count(self.pointer)
        return _Graphs({string(lib.weft_graph_name(self.pointer, i)): self._graph(lib.weft_model_graph(self.pointer, i)) for i in range(count)})

    def parameters(self, pattern=None):
        """Parameters and state whose path matches: {path: ParameterInfo}."""
        info = ffi.new("weft_parameter_info *")
        found = (Parameter(info) for _ in each(lambda i: lib.weft_model_parameter(self.pointer, text(pattern), i, info)))
        return {p.path: p for p in found}

    def _looked_up(self, call, pattern):
        """Refuses a pattern of which a part matches no parameter, and says which scope or parameter is near."""
        if not isinstance(pattern, str):
            raise Error("argument", f"{call}: {pattern!r} is no pattern of parameters: a text is needed, as \"generator\" or \"encoder,head*weight\"")
        if not pattern.strip(", "):
            raise Error("argument", f"{call}: the pattern {pattern!r} is empty, and matches no parameter: \"*\" matches all")
        paths = list(self.parameters())
        scopes = {"/".join(p.split("/")[:i]): None for p in paths for i in range(1, p.count("/") + 1)}
        known = {*paths, *scopes}
        for part in pattern.split(","):
            if part.strip() and part.strip() not in known and not self.parameters(part.strip()):
                meant = near(part.strip(), [*scopes, *paths])
                file, line = place()
                raise Error("name", f"{os.path.basename(string(file) or '')}:{line}: {call}: no parameter matches '{part.strip()}'" +
                            (f": did you mean '{meant}'? S" if meant else "; s") +
                            f"copes and parameters: {', '.join([*scopes, *paths][:20])}{' ...' if len(scopes) + len(paths) > 20 else ''}")

    def check_finished(self):
        """Refuses a model with a graph whose from_torch() failed: C has no call that removes a graph."""
        for name in self._unfinished:
            raise Error("order", f"from_torch: a call that failed has left the graph {name} unfinished: begin again with a new weft.Model")

    def check_batch(self, batch):
        """Refuses a batch that can be no one's: no input of the model follows it, and all inputs of a module's graph begin with one other length."""
        batch, graphs = batch or self._batch, self.graphs
        if not batch or any(port.has_batch for g in graphs.values() for port in g.inputs()):
            return
        trained = [n for n, g in graphs.items() if g.is_train]
        for graph in trained or graphs:
            lengths = self._examples.get(graph)
            if lengths and len(set(lengths.values())) == 1 and batch not in lengths.values():
                axes = ", ".join(f'"{n}": {{0: "batch"}}' for n in lengths)
                raise Error("shape", f"batch={batch}: graph {graph} is of a module that was imported for the examples' batch of {next(iter(lengths.values()))} alone: "
                            f"from_torch(..., dynamic={{{axes}}}) lets it follow the batch")

    def minimize(self, loss, pattern=None, optimizer=None):
        """Adds to the loss's graph the gradients by all trainable parameters under `pattern` ("generator", "encoder,head*weight"; None: all)
        and their update by the optimizer: m.minimize(loss, "discriminator", weft.Adam(2e-4, beta1=0.5))."""
        from .optim import Adam, Optimizer
        keep = []
        optimizer = Optimizer(optimizer) if isinstance(optimizer, str) else optimizer or Adam()
        if not isinstance(optimizer, Optimizer):
            raise Error("argument", f"minimize: a {type(optimizer).__module__}.{type(optimizer).__name__} is no optimizer of Weft's: weft.Adam(1e-3), say")
        made = optimizer.structure(keep)
        if not isinstance(loss, Value):
            raise Error("argument", f"minimize: the loss is a {type(loss).__name__}: it must be a value of a graph")
        if pattern is not None and loss.graph.is_train:
            self._looked_up("minimize", pattern)
        lib.weft_at(loss.pointer, *place())
        if lib.weft_minimize(loss.pointer, text(pattern), made):
            failed(self)
        if self._ops is not None:
            self._try_gradients(loss.graph.name)

    def _try_gradients(self, graph):
        """Builds the gradients of a graph that may have ops of the program, whose Python functions may raise: now, not when it is compiled."""
        from .plan import Plan
        with contextlib.suppress(Error):  # compile() says it, when the model is complete
            Plan(self, {"graph": graph})

    def assign(self, state, value):
        """Writes the value into a state, or a parameter, when the graph runs."""
        lib.weft_at(value.pointer, *place())
        lib.weft_assign(state.pointer, value.pointer)
        self._ok(None)

    def gradients(self, loss, values):
        """The gradients of a loss of one number by each of the values, as values."""
        values = list(values)
        into = ffi.new("weft_value *[]", len(values))
        lib.weft_at(loss.pointer, *place())
        if lib.weft_gradients(loss.pointer, len(values), [v.pointer for v in values], into):
            failed(self)
        return [Value(into[i], loss.graph) for i in range(len(values))]

    def _setting(self, function, *arguments):
        lib.weft_model_at(self.pointer, *place())
        if function(self.pointer, *arguments):
            failed(self)

    def freeze(self, pattern):
        """Parameters whose path matches are trained by no minimize(), before or after this call."""
        self._looked_up("freeze", pattern)
        self._setting(lib.weft_freeze, text(pattern))

    def precision(self, dtype, path=None):
        """The type in which products, convolutions and attention under `path` compute: "bf16", "f16", "f32"."""
        self._setting(lib.weft_model_set_precision, text(path), word("weft_dtype", dtype))

    def flow(self, steps, name=None):
        """Which graphs an iteration of a training runs: "d_step*5 g_step"."""
        if name is None:
            self._setting(lib.weft_model_set_flow, text(steps))
        else:
            self._setting(lib.weft_model_set_flow_named, text(name), text(steps))

    def ddp(self, path, **options):
        """Options of data parallelism for the parameters under a path: m.ddp("generator", zero=2, bucket_cap_mb=4)."""
        keep: list = []
        self._looked_up("ddp", path)
        self._setting(lib.weft_model_set_ddp, text(path), structure("weft_ddp_options", options, keep))

    def set_optimizer(self, settings, name=None):
        """Changes settings of an optimizer in all minimize() calls before: m.set_optimizer("lr=1e-4", "generator")."""
        self._setting(lib.weft_model_set_optimizer, text(name), text(settings))

    def text(self):
        """The model as text, one line a node."""
        return taken(lib.weft_model_text(self.pointer))

    def save(self, path):
        """Saves the model, without weights: graphtool and weft.load() read it."""
        call(lib.weft_save, self.pointer, text(path))

    def view(self, graph=None, depth=None, max_nodes=None):
        """A picture of a graph as it was built, for a notebook. `depth` levels of scopes are open."""
        from .view import draw
        return draw(self, "graph", graph, depth=depth, max_nodes=max_nodes)

    def compile(self, **options):
        """Compiles the model to a plan: m.compile(batch=64, threads=2, precision="bf16"). The options are those of weft_compile_options."""
        from .plan import Plan
        return Plan(self, options)


class Parameter:
    """A parameter or state of a model."""
    __slots__ = ("path", "is_state", "is_frozen", "dtype", "shape")

    def __init__(self, info):
        self.path, self.is_state, self.is_frozen = string(info.path), info.is_state, info.is_frozen
        self.dtype, self.shape = dtype_word(info.dtype), tuple(info.shape[0:info.ndim])

    def __repr__(self):
        return f"{self.path}: {self.dtype}[{','.join(map(str, self.shape))}]"


def _env(ops):
    """What C takes from its host: the ops of a program."""
    env = ffi.new("weft_env *")
    if ops is not None:
        env.ops = ops.pointer
    return env


def load(path, ops=None):
    """Loads a model that Model.save(), weft_save() or graphtool has written."""
    return Model(ops=ops, _pointer=make(lib.weft_load, text(path), _env(ops)))


def parse(model_text, where="text", ops=None):
    """A model from the text of Model.text()."""
    return Model(ops=ops, _pointer=make(lib.weft_model_parse, text(model_text), text(where), _env(ops)))
