"""ATen ops as calls of Weft's builders: one function an op or family, in one table, OPS. Here: the table, a
call's context, and tensors as constants; torch_pointwise.py, torch_shapes.py, torch_products.py, torch_images.py, torch_norms.py and
torch_index.py fill the table.

A function gets the call and the node's arguments, in which nodes are values of the graph; what PyTorch computed
before (a mask, positions) is made a constant first, unless the op is marked `raw`. An op that has no function is
decomposed by PyTorch's own rules, and its parts are looked up here.
"""
import functools
import operator
import types

from . import _ops
from ._build import BATCH
from ._lib import DTYPES, Error
from .model import Value

OPS: dict = {}    # "aten.add.Tensor" -> function(call, ...)
RAW: set = set()  # those that get tensors of PyTorch as they are
RANDOM = ("aten.rand", "aten.bernoulli", "aten.normal", "aten.uniform", "aten.native_dropout", "aten.dropout", "aten.multinomial", "aten.exponential", "aten.poisson",
          "aten.randperm", "aten.empty")

FLOATS = ("f32", "f64", "bf16", "f16")


def op(*names, raw=False):
    """Puts a function into the table, under names without "aten."."""
    def put(function):
        for name in names:
            OPS["aten." + name] = function
            if raw:
                RAW.add("aten." + name)
        return function
    return put


def weft_op(name):
    """A builder that newer versions of Weft have, or None."""
    return getattr(_ops, name, None)


def name_of_dtype(dtype):
    """Weft's word for a type of PyTorch, or None."""
    return DTYPES.get(str(dtype).removeprefix("torch."))


class Written:
    """The running statistics that a batch_norm layer of Weft has written under `name`."""

    def __init__(self, name):
        self.name = name


# What is computed with the length of the batch, by the names of SymPy and of torch.utils._sympy.functions.
OF_BATCH = {"Add": _ops.add, "Mul": _ops.mul, "Pow": _ops.pow, "PowByNatural": _ops.pow, "FloatPow": _ops.pow, "FloatTrueDiv": _ops.div, "IntTrueDiv": _ops.div,
            "FloorDiv": _ops.floor_divide, "CleanDiv": _ops.div, "ToFloat": lambda x: x, "Max": _ops.maximum, "Min": _ops.minimum,
            "OpaqueUnaryFn_sqrt": _ops.sqrt, "OpaqueUnaryFn_log": _ops.log, "OpaqueUnaryFn_exp": _ops.exp}


def formula_of(x):
    """The formula (SymPy) of a number that torch.export leaves open, as it follows from the batch; None: x is no such number."""
    return getattr(getattr(x, "node", None), "expr", None)


class Call:
    """A node of a program that becomes calls of builders."""

    def __init__(self, builder, node):
        self.builder, self.node, self.name = builder, node, str(node.target)
        self.graph = builder.graph

    # ---- what the node is ----

    @property
    def result(self):
        """What PyTorch says of the (first) result: its type and shape."""
        value = self.node.meta["val"]
        return value[0] if isinstance(value, (tuple, list)) else value

    @property
    def dtype(self):
        return self.dtype_of(self.result.dtype)

    def dtype_of(self, dtype):
        found = name_of_dtype(dtype)
        if found is None:
            raise self.refused(f"its type is {dtype}, which Weft does not have", "real and imaginary parts as an axis" if dtype.is_complex else "another type")
        return found

    @property
    def shape(self):
        return self.lengths(self.result.shape)

    def lengths(self, shape):
        return [self.builder.length(n, self) for n in shape]

    def about(self, i):
        """What PyTorch says of operand i: a tensor without numbers, or the number that it is."""
        operand = self.node.args[i]
        return operand.meta.get("val") if hasattr(operand, "meta") else operand

    def computes_in(self, *indices):
        """The type to which PyTorch promotes operands of a comparison."""
        import torch
        return self.dtype_of(torch.result_type(*(self.about(i) for i in indices)))

    # ---- building ----

    def is_known(self):
        """Whether nothing of it depends on an input, a parameter or a random number."""
        if self.name.startswith(RANDOM):
            return False
        return all(self._is_known(x) for x in self.node.all_input_nodes) and not _has_symbol(self.node)

    def _is_known(self, node):
        import torch
        found = self.builder.argument_known(node)
        if isinstance(found, (list, tuple)):
            return all(isinstance(x, (torch.Tensor, int, float, bool, type(None))) and not isinstance(x, torch.SymInt) for x in found)
        return isinstance(found, (torch.Tensor, int, float, bool, type(None)))

    def computed(self):
        import torch
        for node in self.node.all_input_nodes:
            if self.builder.argument_known(node) is None and isinstance(node.meta.get("val"), torch.Tensor):
                raise self.without(node)
        args, kwargs = self.builder.argument(self.node.args), {k: self.builder.argument(v) for k, v in self.node.kwargs.items()}
        if "device" in kwargs:
            kwargs["device"] = "cpu"
        with torch.no_grad():
            return self.node.target(*args, **kwargs)

    def build(self):
        function = OPS.get(self.name)
        args = self.builder.argument(self.node.args)
        kwargs = {k: self.builder.argument(v) for k, v in self.node.kwargs.items() if k not in ("device", "layout", "pin_memory", "memory_format", "non_blocking", "generator")}
        if function is None:
            return self.decomposed(args, kwargs)
        if self.name not in RAW:
            args, kwargs = [self.values(a) for a in args], {k: self.values(v) for k, v in kwargs.items()}
        return function(self, *args, **kwargs)

    def values(self, x):
        import torch
        if isinstance(x, list):
            return [self.values(y) for y in x]
        return as_value(self.builder, x) if isinstance(x, torch.Tensor) else x

    def value(self, x, dtype=None, shape=()):
        """A value of a type: a number becomes a constant, a tensor too."""
        if isinstance(x, Value):
            return cast(x, dtype) if dtype else x
        if isinstance(x, (int, float, bool)):
            return self.constant(dtype or self.dtype, shape, x)
        if formula_of(x) is not None:
            return cast(self.of_batch(formula_of(x)), dtype or self.dtype)
        return self.value(as_value(self.builder, x), dtype)

    def of_batch(self, expression):
        """A number that follows from the length of the batch (a mean's divisor), f64: torch gives it as a formula of SymPy."""
        if expression == self.builder.batch:
            return _ops.sum(self.graph.constant("f64", [BATCH], 1.0), [0], False)
        if expression.is_number:
            return self.graph.constant("f64", [], float(expression))
        parts = [self.of_batch(e) for e in expression.args]
        kind = type(expression).__name__
        if kind == "Symbol":
            raise self.refused(*BY_ITEM)
        if kind not in OF_BATCH:
            raise self.refused(f"it computes with {expression} of the batch", "a mean in place of a sum and a division")
        return functools.reduce(OF_BATCH[kind], parts)

    def constant(self, dtype, shape, number):
        made = self.graph.constant(dtype, list(shape), float(number))
        self.builder.uniform[made] = float(number)
        return made

    def decomposed(self, args, kwargs):
        """Builds the parts into which PyTorch decomposes the op."""
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.utils import _pytree
        rule = _decomposition(self.node.target)
        if rule is None:
            raise self.no_such_op()
        nodes, spec = _pytree.tree_flatten((self.node.args, self.node.kwargs))
        known, _ = _pytree.tree_flatten((self.builder.argument(self.node.args), {k: self.builder.argument(v) for k, v in self.node.kwargs.items()}))
        tensors = [i for i, n in enumerate(nodes) if isinstance(n, torch.fx.Node) and isinstance(n.meta.get("val"), torch.Tensor)]
        flat = [n.meta["val"] if isinstance(n, torch.fx.Node) else n for n in nodes]

        def call_rule(*given):
            for i, t in zip(tensors, given):
                flat[i] = t
            a, k = _pytree.tree_unflatten(flat, spec)
            return rule(*a, **k)

        try:
            made = make_fx(call_rule, pre_dispatch=False)(*(flat[i] for i in tensors))
        except Exception as why:
            raise self.no_such_op(f", and PyTorch cannot decompose it here ({type(why).__name__}: {next(iter(str(why).splitlines()), '')[:120]})") from why
        if len(made.graph.nodes) and all(n.op != "call_function" or n.target != self.node.target for n in made.graph.nodes):
            return self.builder.inline(made, [known[i] for i in tensors], self.node)
        raise self.no_such_op()

    # ---- where it is, and errors ----

    def scope(self):
        stack = self.node.meta.get("nn_module_stack")
        if not stack:
            return ()
        path = list(stack.values())[-1][0].split("@")[0]
        return tuple(_scope_name(p) for p in path.removeprefix("L['self'].").removeprefix("L['self']").split(".") if p)

    def place(self):
        """(file, line) in the program of what the node came from, or None."""
        import re
        found = re.findall(r'File "([^"<]+)", line (\d+)', self.node.meta.get("stack_trace") or "")
        return (found[-1][0], int(found[-1][1])) if found else None

    def without(self, node):
        """The error for an operand that Weft's op does not compute, as the means of a norm."""
        made_by = node.args[0] if node.target is operator.getitem else node
        return self.refused(f"it needs a further result of {made_by.target}, and Weft has the first result alone", "compute it from the op's operands")

    def refused(self, why, help=""):
        return self.error(Error("unsupported", f"{why}{': ' if help else ''}{help}"))

    def no_such_op(self, more=""):
        return self.refused(f"Weft has no such op{more}", HELP.get(self.name.split(".")[1], ELSEWHERE))

    def error(self, why):
        """The error with op, path of the module, and line of the program."""
        if getattr(why, "is_placed", False):
            return why
        place, path = self.place(), ".".join(self.scope())
        where = f"from_torch: {self.name}" + (f" in {path}" if path else "") + (f" ({place[0]}:{place[1]})" if place else "")
        made = Error(why.status, f"{where}: {why}")
        made.is_placed = True
        return made


def refused_at(node, why, help):
    """The error of a node for which nothing is built."""
    return Call(types.SimpleNamespace(graph=None), node).refused(why, help)


# What would help where an op has no counterpart.
STEERS = "a number of a tensor cannot steer a static graph: use where()"
LENGTH = "its length depends on numbers"
BY_ITEM = ("it needs the item() of a tensor, which is known when the graph runs", "keep it a tensor, and use where() or gather()")
FOURIER = "real and imaginary parts as an axis, and a product with the DFT's matrix"
HELP = {
    "nonzero": f"{LENGTH}: use a mask and where()", "masked_select": f"{LENGTH}: use a mask and where()", "_unique2": LENGTH, "unique_dim": LENGTH,
    "item": STEERS, "_local_scalar_dense": STEERS, "histc": "torch.bincount with minlength, or one_hot().sum(0)",
    "_grouped_mm": "experts by masks: each expert on all tokens, times its gate",
    **dict.fromkeys(("_fft_r2c", "_fft_c2r", "_fft_c2c", "fft_r2c", "fft_c2r", "fft_c2c"), FOURIER),
    "as_strided": "view, permute, unfold or index_select", "_linalg_svd": "power iterations (spectral_norm)", "randperm": "random numbers and argsort",
    "median": "x.sort(dim).values.select(dim, (n - 1) // 2), where n is the length of the axis", "kthvalue": "x.sort(dim).values.select(dim, k - 1)",
    "hypot": "(x * x + y * y).sqrt()", "_cdist_forward": "(x[:, None] - y).square().sum(-1).sqrt()",
    "_ctc_loss": "a loss of Weft, or compute it outside of the graph",
}
# What helps against each other one.
ELSEWHERE = ("write it by other ops; or, where it depends on no parameter, compute it outside of the graph and give it as an input; or build the graph by weft's own calls, "
             "with an op of yours (weft.OpSet)")


def _scope_name(part):
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in part)


def _has_symbol(node):
    import torch
    from torch.utils import _pytree
    return any(isinstance(x, (torch.SymInt, torch.SymFloat)) for x in _pytree.tree_leaves((node.args, node.kwargs))) or isinstance(node.meta.get("val"), torch.SymInt)


def _decomposition(target):
    import torch
    if not isinstance(target, torch._ops.OpOverload):
        return None
    table = torch._decomp.decomposition_table
    if target in table:
        return table[target]
    if target in torch._decomp.global_decomposition_table["post_autograd"]:
        return torch._decomp.global_decomposition_table["post_autograd"][target]
    if target._can_decompose():
        return target.decompose
    return None


# ---- tensors as constants ----

def as_value(builder, tensor):
    """A constant with the numbers of a tensor; equal ones are made once. Axes along which it repeats itself stay small."""
    import torch
    if isinstance(tensor, Value):
        return tensor
    tensor = tensor.detach().cpu()
    dtype = name_of_dtype(tensor.dtype)
    if dtype is None:
        raise Error("unsupported", f"a constant has type {tensor.dtype}, which Weft does not have")
    repeated = [tensor.stride(i) == 0 and n > 1 for i, n in enumerate(tensor.shape)]
    base = tensor[tuple(slice(0, 1) if r else slice(None) for r in repeated)].clone(memory_format=torch.contiguous_format)
    key = (dtype, tuple(tensor.shape), tuple(base.shape), hash(base.reshape(-1).clone().view(torch.uint8).numpy().tobytes()))
    if key not in builder.constants:
        builder.constants[key] = _constant(builder, dtype, tensor, base)
    return builder.constants[key]


def _constant(builder, dtype, tensor, base):
    with builder.within(()):
        if not base.numel():
            return builder.graph.constant(dtype, list(tensor.shape), 0)
        first = base.flatten()[0]
        if bool((base == first).all()) and float(first) == first.item():
            made = builder.graph.constant(dtype, list(tensor.shape), float(first))
            builder.uniform[made] = float(first)
            return made
        made = builder.graph.tensor(base, dtype)
        return made if base.shape == tensor.shape else _ops.broadcast_to(made, list(tensor.shape))


def cast(x, dtype):
    return x if x.dtype == dtype else _ops.cast(x, dtype)


def again(x):
    """The same numbers as another value."""
    return _ops.squeeze(_ops.reshape(x, [1]), 0) if x.ndim == 0 else _ops.unsqueeze(x, 0).squeeze(0)
