"""PyTorch modules as graphs that train: torch.export's program, node by node, as calls of Weft's builders.

    m = weft.Model("gan", batch=64)
    m.from_torch("d_step", DStep(generator, discriminator), (image,), dynamic={"image": {0: "batch"}},
                 minimize={"discriminator": weft.Adam(2e-4, beta1=0.5)})

Parameters have PyTorch's names ("generator.fc.weight" is generator/fc/weight), so graphs of one model share them, and
store.load_state_dict(module.state_dict()) puts the weights in; to_torch(store, module) brings them back. What depends
on no input is computed once, by PyTorch, while the graph is built. torch_ops.py has the table of ATen ops.
"""
import contextlib
import operator
import re

from . import _build, torch_images, torch_index, torch_norms, torch_ops, torch_pointwise, torch_products, torch_shapes  # noqa: F401 (they fill the table)
from ._build import BATCH
from ._lib import Error, text
from .model import Model
from .optim import Optimizer
from .torch_export import export
from .torch_ops import name_of_dtype

__all__ = ("from_torch", "to_torch", "module_of")


# ---- what a user calls ----

def from_torch(model, name, module, args=(), kwargs=None, *, train=True, dynamic=None, minimize=None, loss=None, outputs=None):
    """Makes the graph `name` of a torch.nn.Module that is called with these example arguments, and returns the graph.

    A store of the model begins with the module's values, unless it resumes a training.
    train: dropout drops, norms use the batch, in submodules whose own `training` is set; False: a graph for predictions of module.eval().
    dynamic: {"image": {0: "batch"}}, axes of inputs that follow the model's batch; others have the examples' lengths. An argument that is a
        tuple, list or dict of tensors has the same structure: {"pair": ({0: "batch"}, None)}.
    minimize: an optimizer, or {pattern of parameters: optimizer}; it minimizes the output `loss`: by default that of this name, or the
        first output of one number.
    outputs: names of the outputs, in the order in which the module returns them.
    """
    args, kwargs = _examples(args, kwargs)
    program = export(module, args, kwargs, train=train, dynamic=dynamic)
    return of_program(model, name, program, module, train=train, dynamic=dynamic, minimize=minimize, loss=loss, outputs=outputs)


def _examples(args, kwargs):
    """The examples as tensors, also those within tuples, lists and dicts: an array or tensor alone is one of them."""
    import torch
    from torch.utils import _pytree
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    return _pytree.tree_map(lambda a: torch.from_numpy(a) if type(a).__module__ == "numpy" and hasattr(a, "ndim") and a.ndim else a, (args, kwargs))


def to_torch(store, module, steps=None):
    """Writes the values of a store into a module of the same names.

    num_batches_tracked becomes what it was when the module was imported, plus the batches that trained it: for each graph that was imported
    with train=True and has the norm in training mode, the updates of its optimizers, times accumulate= of the plan. Not counted are runs
    that update nothing (of a graph without minimize=, and those between the updates of a plan with manual=True); an optimizer that two
    graphs share counts once. A norm that no such graph has stays as it is. `steps` is what all of them become instead.
    """
    import torch
    found = store.state_dict()
    counts = _Counts(store)
    names = _joined(store.plan.model).names
    state = module.state_dict()
    with torch.no_grad():
        for name, tensor in state.items():
            path = names.get(name, name)
            if path in found:
                tensor.copy_(torch.from_numpy(found[path]).reshape(tensor.shape))
            elif name.endswith("num_batches_tracked"):
                counted = counts.of(name, names) if steps is None else steps
                if counted is not None:
                    tensor.fill_(counted)
            elif name not in names:
                inner = next((n.removesuffix(name) for n in found if n.endswith("." + name)), "")
                raise Error("name", f"to_torch: the store has no value {name} for the module" +
                            (f": its names begin with {inner!r}: give the module that holds it as {inner[:-1]!r}, as from_torch() had" if inner else ""))
    return module


def module_of(store, graph, outputs=None):
    """A torch.nn.Module that runs a graph of the store's plan, for code that evaluates modules: module(image) -> tensor, or a tuple of
    tensors. It has no gradients."""
    from ._torch_module import Predictor
    return Predictor(store, graph, outputs)


# ---- names that graphs of one model share ----

class _Joined:
    """What a model knows about the modules that its graphs came from."""

    def __init__(self):
        self.names = {}      # name in a state_dict -> the name whose value it is ("": a constant of the graph)
        self.made = set()    # paths of parameters and state
        self.at = {}         # place of a tensor in memory -> its path
        self.folded = {}     # name of a buffer that is a constant -> the graph in which
        self.counted = {}    # name of a num_batches_tracked -> what it was, and {graph that trains the norm: batches of a run}


def _joined(model):
    if not hasattr(model, "_joined"):
        model._joined = _Joined()
        model.other_names = model._joined.names
    return model._joined


class _Counts:
    """How many batches the norms of a module have seen, by the updates of the graphs that train them."""

    def __init__(self, store):
        self.model, self.steps = store.plan.model, store.steps()
        self.accumulate = int(store.plan.options.get("accumulate") or 1)
        self.optimizers = {}  # graph -> the names of its optimizers
        for graph, optimizer in re.findall(r'^graph (\S+)|^minimize\(.*? name="(.*?)"', self.model.text(), re.M):
            if graph:
                last = self.optimizers.setdefault(graph, set())
            else:
                last.add(optimizer)

    def of(self, name, names):
        """The count of "net.bn.num_batches_tracked"; None: no graph trains the norm."""
        counted, module = _joined(self.model).counted, name.rpartition(".")[0]
        tied = (names.get(f"{module}.{part}") for part in ("running_mean", "weight"))  # a norm of two names has one count
        known = [n for n in (name, *(f"{t.rpartition('.')[0]}.num_batches_tracked" for t in tied if t)) if n in counted]
        if not known:
            return None
        count, graphs = counted[known[0]]
        seen: set = set()
        for graph, batches in graphs.items():
            mine = self.optimizers.get(graph, set()) - seen
            count += batches * self.accumulate * max((self.steps.get(o, 0) for o in mine), default=0)
            seen |= mine
        return count


# ---- a program's nodes as calls of builders ----

def of_program(model, name, program, module=None, *, train=True, dynamic=None, minimize=None, loss=None, outputs=None):
    """from_torch() of a program that export() has made. `module` says which of its names are tied."""
    model.check_finished()
    names = _names_of_outputs(program, outputs)
    graph = model.graph(name, train=bool(train))
    model._unfinished.add(name)
    _Builder(model, graph, program, module, dynamic or {}).build(names, minimize, loss)
    model._unfinished.remove(name)
    inputs = graph.inputs()
    if inputs and not any(port.has_batch for port in inputs):
        model._examples[name] = {port.name: port.shape[0] for port in inputs if port.shape}
    return graph


LONGEST = 150  # of a pattern from which an optimizer has its name, which may have 200 characters
OF_NORMS = {"running_mean": ("zeros",), "running_var": ("ones",)}


class _Stored:
    """A parameter or buffer, which the graph gets when a node reads it."""

    def __init__(self, name, tensor, is_state):
        self.name, self.tensor, self.is_state = name, tensor, is_state
        self.value = None  # in the tensor's type
        self.held = None   # as it is stored


class _Counter:
    """The count of batches of a BatchNorm, which no graph needs: to_torch() fills it in."""
    name = "num_batches_tracked"


class _Builder:
    def __init__(self, model, graph, program, module, dynamic):
        self.model, self.graph, self.program, self.module, self.dynamic = model, graph, program, module, dynamic
        self.joined = _joined(model)
        self.env = {}        # node -> Value, tensor of PyTorch, number, _Stored, or a tuple of them
        self.scope = ()      # the names of the scope that is entered
        self.constants = {}  # tensors that are in the graph already
        self.uniform = {}    # constants whose elements are one number -> the number
        self.batch = None    # the symbol of the batch
        self.comes_from = {} # node of a branch that was taken -> the nodes whose value it has
        self.first_names = self._first_names()

    def _first_names(self):
        """The name under which a tied parameter or buffer is stored: {each of its names: the first}."""
        if self.module is None or not hasattr(self.module, "named_parameters"):
            return {}
        first, names = {}, {}
        for of in (self.module.named_parameters, self.module.named_buffers):
            for name, tensor in of(remove_duplicate=False):
                names[name] = first.setdefault(id(tensor), name)
        return names

    def build(self, outputs, minimize, loss):
        """Builds the nodes. `outputs`: a name for each result of the module."""
        try:
            self._placeholders()
            for node in self.program.graph.nodes:
                if node.op == "call_function":
                    self.env[node] = self.call(node)
            self.enter(())
            made = self._outputs(outputs)
        finally:
            _build.at = None
            self.enter(())
        if minimize:
            self._minimize(minimize, made, loss)
        return made

    # ---- placeholders ----

    def _placeholders(self):
        from torch.export.graph_signature import InputKind
        written = {s.target for s in self.program.graph_signature.output_specs if s.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION")}
        nodes = {n.name: n for n in self.program.graph.nodes if n.op == "placeholder"}
        for spec in self.program.graph_signature.input_specs:
            node = nodes[spec.arg.name]
            if spec.kind == InputKind.PARAMETER:
                self.env[node] = self._stored(spec.target, self.program.state_dict[spec.target], False)
            elif spec.kind == InputKind.BUFFER:
                self.env[node] = self._buffer(node, spec.target, spec.target in written)
            elif spec.kind == InputKind.CONSTANT_TENSOR:
                self.env[node] = self.program.constants[spec.target].detach()
            elif spec.kind == InputKind.USER_INPUT:
                self.env[node] = self._input(spec, node)
            else:
                raise Error("unsupported", f"from_torch: the argument {spec.arg.name} is a {spec.kind.name.lower()}, which graphs of Weft do not have")

    def _stored(self, name, tensor, is_state):
        if tensor.numel() == 0:  # Weft has no parameters without elements
            self.joined.names[name] = ""
            return tensor.detach()
        first = self.first_names.get(name, name)
        self.joined.names[name] = first
        return _Stored(first, tensor, is_state)

    def _buffer(self, node, name, is_written):
        tensor = self.program.state_dict.get(name)
        if tensor is None:
            tensor = self.program.constants[name]
        if name.endswith("num_batches_tracked") and _only_counts(node):
            self.joined.names[name] = ""
            if is_written and self.graph.is_train:
                self.joined.counted.setdefault(name, (int(tensor), {}))[1][self.graph.name] = _counted_on(node)
            return _Counter()
        first = self.first_names.get(name, name)
        norm = name.rpartition(".")[2] in ("running_mean", "running_var")
        if is_written or norm or first.replace(".", "/") in self.joined.made:
            if first in self.joined.folded:
                raise Error("order", f"from_torch: graph {self.joined.folded[first]} has the buffer {first} as a constant, but this graph writes it: "
                            "make the graph that writes it first")
            return self._stored(name, tensor, True)
        self.joined.folded[first] = self.graph.name
        self.joined.names.setdefault(name, "")
        return tensor.detach()

    def _input(self, spec, node):
        import torch
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return getattr(spec.arg, "value", None)
        if self.batch is None:
            self.batch = next((n.node.expr for n in value.shape if not isinstance(n, int)), None)
        dtype = name_of_dtype(value.dtype)
        if dtype is None:
            raise Error("unsupported", f"from_torch: input {node.name} has type {value.dtype}, which Weft does not have: pass real and imaginary parts as an axis"
                        if value.dtype.is_complex else f"from_torch: input {node.name} has type {value.dtype}, which Weft does not have")
        return self.graph.input(node.name, dtype, [self.length(n, None) for n in value.shape])

    # ---- scopes and places ----

    def enter(self, scope):
        """Enters a scope from the one that is entered."""
        from ._lib import NULL, lib
        same = 0
        while same < min(len(scope), len(self.scope)) and scope[same] == self.scope[same]:
            same += 1
        for _ in self.scope[same:]:
            lib.weft_scope_leave(self.graph.pointer)
        self.scope = self.scope[:same]
        for part in scope[same:]:
            if lib.weft_graph_scope_enter(self.graph.pointer, text(part)) == NULL:
                _build.failed(self.model)
            self.scope += (part,)

    @contextlib.contextmanager
    def within(self, scope):
        before = self.scope
        self.enter(scope)
        try:
            yield
        finally:
            self.enter(before)

    # ---- values ----

    def read(self, stored):
        """The value of a parameter or of state."""
        if stored.value is None:
            *scope, name = stored.name.split(".")
            path = stored.name.replace(".", "/")
            dtype = stored.tensor.dtype
            init = OF_NORMS.get(name) if stored.is_state else None  # as the layer has it, whatever a trained one's values are
            init = init or (("zeros",) if path in self.joined.made or not dtype.is_floating_point else _init_like(stored.tensor))
            with self.within(tuple(scope)):
                if stored.is_state:
                    stored.value = self.graph.state(name, stored.tensor.shape, init, "f32" if dtype.is_floating_point else "i64")
                else:
                    stored.value = self.graph.parameter(name, stored.tensor.shape, init)
            stored.held = stored.value
            self._begins(path, stored.tensor)
            self.joined.made.add(path)
            if not stored.is_state and not stored.tensor.requires_grad and self.graph.is_train:
                self.model.freeze(path)
            stored.value = torch_ops.cast(stored.value, name_of_dtype(dtype))
        return stored.value

    def _begins(self, path, tensor):
        """Notes the first value of a parameter or state. A tensor that has another name here would be trained twice, apart."""
        place = (tensor.data_ptr(), tuple(tensor.shape))
        other = self.joined.at.setdefault(place, path)
        if other != path and place[0]:
            raise Error("name", f"from_torch: the module's {path.replace('/', '.')} is {other.replace('/', '.')} in another graph of the model, so the two would "
                        "be different parameters: give both graphs a module in which it has one name, such as a module that holds the network as an attribute")
        self.model._begin[path] = tensor

    def length(self, n, call):
        """A length of an axis for a builder: the batch is WEFT_BATCH."""
        if isinstance(n, int):
            return n
        expression = n.node.expr
        if expression.is_Integer:
            return int(expression)
        if expression == self.batch:
            return BATCH
        why = f"an axis is {expression}, which is neither a number nor the batch"
        raise Error("unsupported", f"from_torch: {why}") if call is None else call.refused(why, "only the batch may be dynamic")

    def argument_known(self, node):
        """What a node stands for, without building anything."""
        return _attribute(node.graph.owning_module, node.target) if node.op == "get_attr" else self.env[node]

    def argument(self, x):
        """What a node's argument is for a function of torch_ops: nodes become what they stand for."""
        import torch
        if isinstance(x, torch.fx.Node):
            if x.op == "get_attr":
                return _attribute(x.graph.owning_module, x.target)
            found = self.env[x]
            return self.read(found) if isinstance(found, _Stored) else found
        if isinstance(x, (list, tuple)):
            return [self.argument(y) for y in x]
        return x

    # ---- calls ----

    def call(self, node):
        import torch
        call = torch_ops.Call(self, node)
        if node.target is operator.getitem:
            return self.env[node.args[0]][node.args[1]]
        if getattr(node.target, "__name__", "").startswith("return_types"):
            return tuple(self.argument(x) for x in node.args)  # PyTorch's named tuples
        if any(isinstance(self.env.get(n), _Counter) for n in node.all_input_nodes):
            return _Counter()
        if call.is_known():
            return self.placed(call, call.computed)
        if call.name == "cond":
            return self.branch(call)
        if not isinstance(node.meta.get("val"), (torch.Tensor, tuple, list)):
            return node.meta.get("val")  # a length
        if isinstance(node.meta["val"], torch.Tensor) and any(n == 0 for n in node.meta["val"].shape if isinstance(n, int)):
            shape, dtype = node.meta["val"].shape, node.meta["val"].dtype
            if all(isinstance(n, int) for n in shape):
                return torch.empty(list(shape), dtype=dtype)
            return call.constant(call.dtype, call.shape, 0)  # an axis follows the batch
        _build.at = call.place()
        self.enter(call.scope())
        try:
            return self.placed(call, call.build)
        finally:
            _build.at = None

    def placed(self, call, function):
        """What a function of a call returns; its error has the call's place."""
        try:
            return function()
        except Error as why:
            if getattr(why, "is_placed", False):
                raise
            raise call.error(why) from why
        except (TypeError, ValueError, IndexError, AttributeError, KeyError, ZeroDivisionError, RuntimeError) as why:
            if type(why).__name__ == "GuardOnDataDependentSymNode":
                raise call.refused(*torch_ops.BY_ITEM) from None
            said = next(iter(str(why).splitlines()), "")[:200]
            raise call.error(Error("internal", f"the importer failed ({type(why).__name__}: {said}): please report it")) from why

    def branch(self, call):
        """The branch of torch.cond() that is taken: its condition must be known while the graph is built."""
        condition, when_true, when_false, operands = call.node.args
        known = self.argument(condition)
        formula = torch_ops.formula_of(known)
        if formula is not None and formula.free_symbols:
            raise call.refused(f"its condition {formula} depends on the batch, which may be another in each compile", "a fixed batch (no dynamic=), "
                               "or compute both branches, and take one by torch.where()")
        if isinstance(known, torch_ops.Value):
            raise call.refused("its condition is computed when the graph runs", "compute both branches, and take one by torch.where()")
        inner = _attribute(call.node.graph.owning_module, (when_true if bool(known) else when_false).target)
        nodes = inner.graph.nodes
        places = [n for n in nodes if n.op == "placeholder"]
        self.comes_from.update({place: [o] for place, o in zip(places, operands) if hasattr(o, "all_input_nodes")})
        self.comes_from[call.node] = next(n for n in nodes if n.op == "output").all_input_nodes
        return self.run(inner, [self.env[o] if hasattr(o, "all_input_nodes") else o for o in operands])

    def inline(self, graph_module, arguments, node):
        """Calls the nodes of a decomposition in the place of the node that it stands for."""
        for n in graph_module.graph.nodes:
            if n.op == "call_function":
                n.meta.update({key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta})
        return self.run(graph_module, arguments)

    def run(self, graph_module, arguments):
        """Calls the nodes of a part; returns its results."""
        places = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
        self.env.update(zip(places, arguments))
        for n in graph_module.graph.nodes:
            if n.op == "call_function":
                self.env[n] = self.call(n)
            elif n.op == "output":
                return self.argument(n.args[0]) if not isinstance(n.args[0], (list, tuple)) else [self.argument(x) for x in n.args[0]]

    # ---- outputs ----

    def _outputs(self, names):
        made = {}
        specs = self.program.graph_signature.output_specs
        nodes = list(next(n for n in self.program.graph.nodes if n.op == "output").args[0])
        users = [(s, n) for s, n in zip(specs, nodes) if s.kind.name == "USER_OUTPUT"]
        for (_, node), name in zip(users, names):
            value = self.argument(node)
            if value is None or isinstance(value, (int, float, bool, str)):
                continue
            value = torch_ops.as_value(self, value)
            if any(value is other for other in made.values()) or node.op == "placeholder":
                value = torch_ops.again(value)
            made[name] = value.output(name)
        for spec, node in zip(specs, nodes):
            if spec.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
                self._write(spec.target, self.env[node])
            elif spec.kind.name == "USER_INPUT_MUTATION":
                raise Error("unsupported", f"from_torch: the module writes into its input {spec.target}: return the new value instead")
        return made

    def _write(self, name, value):
        if isinstance(value, (torch_ops.Written, _Counter)):
            return  # batch_norm has written it; to_torch() counts the batches
        target = next(self.env[n] for n in self.program.graph.nodes if n.op == "placeholder" and isinstance(self.env.get(n), _Stored) and self._is(n, name))
        self.read(target)
        value = torch_ops.as_value(self, self.read(value) if isinstance(value, _Stored) else value)
        self.model.assign(target.held, torch_ops.cast(value, target.held.dtype))

    def _is(self, node, name):
        spec = next(s for s in self.program.graph_signature.input_specs if s.arg.name == node.name)
        return spec.target == name

    def _minimize(self, minimize, made, loss):
        chosen = made.get(loss or "loss")
        if chosen is None and loss is None:
            chosen = next((v for v in made.values() if v.ndim == 0 and v.is_float), None)
        if chosen is None:
            raise Error("name", f"from_torch: no output {loss} to minimize: there are {', '.join(made)}" if loss else
                        "from_torch: no output is one number, which minimize needs: let the module return its loss")
        if isinstance(minimize, dict):
            for pattern, optimizer in minimize.items():
                self.model.minimize(chosen, pattern, optimizer)
        else:
            pattern = self._reached(made, chosen)
            self.model.minimize(chosen, pattern, _named_after(self.graph.name, pattern, minimize))

    def _reached(self, made, loss):
        """A pattern of the parameters that have a gradient of the loss; None: all of the model's."""
        users = [n for s, n in zip(self.program.graph_signature.output_specs, next(n for n in self.program.graph.nodes if n.op == "output").args[0])
                 if s.kind.name == "USER_OUTPUT" and self.env.get(n) is not None]
        begin = next((n for n in users if self.env[n] is loss), None)
        reached = set() if begin is None else _reached_from(begin, self.env, self.comes_from)
        trained = {p.path for p in self.model.parameters().values() if not p.is_state and not p.is_frozen}
        paths = {n.replace(".", "/") for n in reached} & trained
        return None if begin is None or paths == trained else ",".join(_cover(paths, trained))


def _only_counts(node):
    """Whether a count of batches is only counted on."""
    return all(n.op == "output" or str(n.target) == "aten.add.Tensor" and all(u.op == "output" or _only_counts(u) for u in n.users) for n in node.users)


def _counted_on(node):
    """How often a count of batches is counted on, which is how often its norm runs."""
    added = [u for u in node.users if u.op != "output"]
    return len(added) + sum(_counted_on(u) for u in added)


def _reached_from(node, env, comes_from):
    """The names of parameters that a node has gradients of."""
    found, seen, todo = set(), set(), [node]
    while todo:
        node = todo.pop()
        if node in seen or str(node.target) == "aten.detach.default" or _is_of_whole_numbers(node):
            continue
        seen.add(node)
        if isinstance(env.get(node), _Stored):
            found.add(env[node].name)
        todo += comes_from.get(node) or node.all_input_nodes
    return found


def _is_of_whole_numbers(node):
    value = node.meta.get("val")
    return hasattr(value, "dtype") and not value.dtype.is_floating_point


def _named_after(graph, pattern, optimizer):
    """The optimizer of a list of parameters that the user did not write: named after the graph where the list is too long to be its name."""
    if pattern is None or len(pattern) <= LONGEST or not isinstance(optimizer, (str, Optimizer)):
        return optimizer
    fields = {"type": optimizer} if isinstance(optimizer, str) else optimizer.fields
    return optimizer if fields.get("name") else Optimizer(**{**fields, "name": f"{fields['type']}:{graph}"})


def _cover(paths, all_paths):
    """Scopes and paths under which are all of `paths` and no other of `all_paths`."""
    chosen = []
    for path in sorted(paths):
        if any(path.startswith(c + "/") for c in chosen):
            continue
        parts = path.split("/")
        scopes = ["/".join(parts[:i]) for i in range(1, len(parts))]
        chosen.append(next((s for s in scopes if all(p in paths for p in all_paths if p.startswith(s + "/"))), path))
    return chosen


def _attribute(owner, path):
    for part in path.split("."):
        owner = getattr(owner, part)
    return owner


def _init_like(tensor):
    """An initial value like that of a tensor, for trainings that load no weights."""
    values = tensor.detach().double()
    if values.numel() == 0 or bool((values == values.flatten()[0]).all()):
        first = float(values.flatten()[0]) if values.numel() else 0.0
        return ("zeros",) if first == 0 else ("ones",) if first == 1 else ("constant", first)
    std = float(values.std())
    return ("normal", float(values.mean()), std) if std > 0 else ("zeros",)


def _names_of_outputs(program, given):
    count = sum(s.kind.name == "USER_OUTPUT" for s in program.graph_signature.output_specs)
    names = _output_names(program, count) if given is None else [given] if isinstance(given, str) else list(given)
    if len(names) != count:
        raise Error("argument", f"from_torch: {len(names)} names for {count} outputs")
    return names


def _output_names(program, count):
    """Names of outputs by where they are in what the module returns: "logits", "output_1"."""
    from torch.utils import _pytree
    spec = program.call_spec.out_spec
    if spec is None or spec.num_leaves != count:
        return ["output"] if count == 1 else [f"output_{i}" for i in range(count)]
    paths = [p for p, _ in _pytree.tree_flatten_with_path(_pytree.tree_unflatten(list(range(spec.num_leaves)), spec))[0]]
    names = []
    for path in paths:
        parts = [str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", "")))) for k in path]
        named = "_".join(parts)
        names.append("output" if not named else named if not named[0].isdigit() else f"output_{named}")
    return names


Model.from_torch = from_torch
