"""ATen ops as calls of Weft's builders: one function an op or family, in one table, OPS. Here: a call's context,
pointwise ops, reductions, shapes and constants; torch_layers.py has products, images, norms, losses and indices.

A function gets the call and the node's arguments, in which nodes are values of the graph; what PyTorch computed
before (a mask, positions) is made a constant first, unless the op is marked `raw`. An op that has no function is
decomposed by PyTorch's own rules, and its parts are looked up here.
"""
import math

from . import _ops, _build
from ._build import BATCH
from ._lib import Error
from .model import Value

OPS = {}       # "aten.add.Tensor" -> function(call, ...)
RAW = set()    # those that get tensors of PyTorch as they are
RANDOM = ("aten.rand", "aten.bernoulli", "aten.normal", "aten.uniform", "aten.native_dropout", "aten.dropout", "aten.multinomial", "aten.exponential", "aten.poisson",
          "aten.randperm", "aten.empty")

_DTYPES = {"torch.float32": "f32", "torch.float64": "f64", "torch.bfloat16": "bf16", "torch.float16": "f16", "torch.int64": "i64", "torch.int32": "i32",
           "torch.uint8": "u8", "torch.bool": "bool", "torch.int8": "i8", "torch.uint16": "u16", "torch.uint32": "u32"}
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
    from .model import dtype_word
    from ._lib import lib
    found = _DTYPES.get(str(dtype))
    return found if found in [dtype_word(n) for n in range(lib.WEFT_DTYPES)] else None


class Written:
    """The running statistics that a batch_norm layer of Weft has written under `name`."""

    def __init__(self, name):
        self.name = name


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
        return self.value(as_value(self.builder, x), dtype)

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
            raise self.refused("Weft has no such op", HELP.get(self.name.split(".")[1], ""))
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
            raise self.refused(f"Weft has no such op, and PyTorch cannot decompose it here ({type(why).__name__}: {str(why).splitlines()[0][:120]})") from why
        if len(made.graph.nodes) and all(n.op != "call_function" or n.target != self.node.target for n in made.graph.nodes):
            return self.builder.inline(made, [known[i] for i in tensors], self.node)
        raise self.refused("Weft has no such op", HELP.get(self.name.split(".")[1], ""))

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

    def refused(self, why, help=""):
        return self.error(Error("unsupported", f"{why}{': ' if help else ''}{help}"))

    def error(self, why):
        """The error with op, path of the module, and line of the program."""
        if getattr(why, "is_placed", False):
            return why
        place, path = self.place(), ".".join(self.scope())
        where = f"from_torch: {self.name}" + (f" in {path}" if path else "") + (f" ({place[0]}:{place[1]})" if place else "")
        made = Error(why.status, f"{where}: {why}")
        made.is_placed = True
        return made


# What would help where an op has no counterpart.
HELP = {
    "nonzero": "its length depends on numbers: use a mask and where()", "masked_select": "its length depends on numbers: use a mask and where()",
    "_unique2": "its length depends on numbers", "unique_dim": "its length depends on numbers", "item": "a number of a tensor cannot steer a static graph: use where()",
    "_local_scalar_dense": "a number of a tensor cannot steer a static graph: use where()", "histc": "torch.bincount with minlength, or one_hot().sum(0)",
    "_grouped_mm": "experts by masks: each expert on all tokens, times its gate", "fft_fft": "real and imaginary parts as an axis, and a product with the DFT's matrix",
    "as_strided": "view, permute, unfold or index_select", "_linalg_svd": "power iterations (spectral_norm)", "randperm": "random numbers and argsort",
    "_ctc_loss": "a loss of Weft, or compute it outside of the graph",
}


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
        first = base.flatten()[0] if base.numel() else None
        if first is not None and bool((base == first).all()) and float(first) == first.item():
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


# ---- pointwise: one operand ----

UNARY = {n: getattr(_ops, n) for n in (
    "neg", "abs", "square", "sqrt", "rsqrt", "reciprocal", "exp", "log", "tanh", "sigmoid", "relu", "silu", "mish", "selu", "hardswish", "hardsigmoid", "relu6", "erf", "sin",
    "cos", "tan", "asin", "acos", "atan", "floor", "ceil", "trunc", "sign")}
UNARY.update({"sgn": _ops.sign, "log_sigmoid": _ops.logsigmoid, "positive": lambda x: x, "negative": _ops.neg, "absolute": _ops.abs})


def _unary(function):
    def call(c, x):
        if x.is_float or x.dtype in ("i32", "i64") and not c.result.is_floating_point():
            return function(cast(x, c.dtype) if c.result.is_floating_point() else x)
        return cast(function(cast(x, c.dtype if c.result.is_floating_point() else "i64")), c.dtype)
    return call


for _name, _function in UNARY.items():
    op(_name + ".default")(_unary(_function))

# By f64, where 1 + x would lose what is small.
BY_F64 = {"log1p": lambda x: (x + 1).log(), "expm1": lambda x: x.exp() - 1, "log2": lambda x: x.log() * (1 / math.log(2)), "log10": lambda x: x.log() * (1 / math.log(10)),
          "exp2": lambda x: (x * math.log(2)).exp(), "sinh": lambda x: (x.exp() - (-x).exp()) * 0.5, "cosh": lambda x: (x.exp() + (-x).exp()) * 0.5,
          "asinh": lambda x: (x + (x * x + 1).sqrt()).log(), "acosh": lambda x: (x + (x * x - 1).sqrt()).log(), "atanh": lambda x: ((x + 1) / (1 - x)).log() * 0.5,
          "erfc": lambda x: 1 - x.erf()}


def _by_f64(function):
    return lambda c, x: cast(function(cast(x, "f64")), c.dtype)


for _name, _function in BY_F64.items():
    op(_name + ".default")(_by_f64(_function))


@op("round.default")
def round_(c, x):
    return _ops.round(x) if x.is_float else x


@op("frac.default")
def frac(c, x):
    return x - _ops.trunc(x)


@op("isnan.default")
def isnan(c, x):
    return _ops.isnan(x)


@op("isinf.default")
def isinf(c, x):
    return _ops.isinf(x)


@op("isfinite.default")
def isfinite(c, x):
    return _ops.logical_not(_ops.logical_or(_ops.isnan(x), _ops.isinf(x)))


@op("logical_not.default")
def logical_not(c, x):
    return _ops.logical_not(x)


@op("bitwise_not.default")
def bitwise_not(c, x):
    return _ops.logical_not(x) if x.dtype == "bool" else _ops.bitwise_not(x)


@op("gelu.default")
def gelu(c, x, approximate="none"):
    return _ops.gelu_tanh(x) if approximate == "tanh" else _ops.gelu(x)


@op("leaky_relu.default")
def leaky_relu(c, x, slope=0.01):
    return _ops.leaky_relu(x, slope)


@op("elu.default")
def elu(c, x, alpha=1, scale=1, input_scale=1):
    if alpha == 1.6732632423543772 and scale == 1.0507009873554805 and input_scale == 1:
        return _ops.selu(x)
    if input_scale != 1:  # where x > 0 it is x itself
        negative = (x * input_scale).exp() * alpha - alpha
        return _ops.where(x > 0, x, negative) * scale
    made = _ops.elu(x, alpha)
    return made if scale == 1 else made * scale


@op("celu.default")
def celu(c, x, alpha=1.0):
    return elu(c, x, alpha, 1, 1.0 / alpha)


@op("hardtanh.default")
def hardtanh(c, x, low=-1, high=1):
    return _ops.relu6(x) if (low, high) == (0, 6) and x.is_float else _ops.hardtanh(x, low, high) if x.is_float else _ops.clamp(x, low, high)


@op("softplus.default")
def softplus(c, x, beta=1, threshold=20):
    return _ops.softplus(x, beta, threshold)


@op("threshold.default")
def threshold(c, x, limit, value):
    return _ops.relu(x) if limit == value == 0 else _ops.where(x > limit, x, c.value(value, x.dtype))


@op("hardshrink.default")
def hardshrink(c, x, limit=0.5):
    return _ops.where(_ops.abs(x) > limit, x, c.value(0, x.dtype))


@op("softshrink.default")
def softshrink(c, x, limit=0.5):
    return _ops.where(x > limit, x - limit, _ops.where(x < -limit, x + limit, c.value(0, x.dtype)))


@op("prelu.default", "_prelu_kernel.default")
def prelu(c, x, weight):
    if weight.ndim > 1:  # _prelu_kernel has it as it broadcasts
        weight = _ops.reshape(weight, [-1])
    return _ops.prelu(x, weight)


@op("glu.default")
def glu(c, x, axis=-1):
    a, b = _ops.chunk(x, 2, axis)
    return a * b.sigmoid()


@op("clone.default", "contiguous.default", "alias.default", "lift_fresh_copy.default", "lift_fresh.default", "detach_copy.default")
def same(c, x):
    return x


@op("detach.default")
def detach(c, x):
    return _ops.stop_gradient(x)


@op("_to_copy.default", "to.dtype", "to.dtype_layout", "_to_copy.out", "to.device", "type_as.default", "_assert_tensor_metadata.default")
def to(c, x, *given, **more):
    return cast(x, c.dtype)


@op("clamp.default", "clip.default")
def clamp(c, x, min=None, max=None):
    x = cast(x, c.dtype)
    if x.dtype not in (*FLOATS, "i32", "i64"):
        return cast(clamp_of(c, cast(x, "i64"), min, max), c.dtype)
    return clamp_of(c, x, min, max)


def clamp_of(c, x, min, max):
    if min is not None and max is not None and min <= max and all(map(math.isfinite, (min, max))):
        return _ops.clamp(x, min, max)
    return at_most(c, at_least(c, x, min), max)


def at_least(c, x, min):
    if min is None or min == -math.inf:
        return x
    return _ops.relu(x) if min == 0 and x.is_float else _ops.maximum(x, c.value(min, x.dtype))


def at_most(c, x, max):
    return x if max is None or max == math.inf else _ops.minimum(x, c.value(max, x.dtype))


@op("clamp_min.default")
def clamp_min(c, x, min):
    # torch passes the gradient where x is the bound, maximum() a half of it.
    return clamp(c, x, min, _largest(c.dtype))


@op("clamp_max.default")
def clamp_max(c, x, max):
    return clamp(c, x, -_largest(c.dtype), max)


def _largest(dtype):
    return {"f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308, "bf16": 3.3895313892515355e38, "f16": 65504.0}.get(dtype, 2.0**31 - 1 if dtype == "i32" else 2.0**62)


@op("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def clamp_tensor(c, x, min=None, max=None):
    if c.name.endswith("clamp_max.Tensor"):
        min, max = None, min
    x = cast(x, c.dtype)
    if min is not None:
        x = _ops.maximum(x, cast(min, c.dtype))
    return x if max is None else _ops.minimum(x, cast(max, c.dtype))


# ---- pointwise: two operands ----

def in_arithmetic(c, function, a, b):
    """A function of two operands in the type of the result; bytes and bool are computed as i64."""
    dtype = c.dtype if c.dtype in (*FLOATS, "i32", "i64") else "i64"
    return cast(function(c.value(a, dtype), c.value(b, dtype)), c.dtype)


def is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)


@op("add.Tensor", "add.Scalar")
def add(c, a, b, *, alpha=1):
    if c.dtype == "bool":
        return _ops.logical_or(a, c.value(b, "bool"))
    if isinstance(a, Value) and is_number(b) and c.dtype in (*FLOATS, "i32", "i64"):
        return cast(a, c.dtype) + b * alpha
    if alpha != 1:
        b = c.value(b, c.dtype) * alpha
    return in_arithmetic(c, _ops.add, a, b)


@op("sub.Tensor", "sub.Scalar")
def sub(c, a, b, *, alpha=1):
    if isinstance(a, Value) and is_number(b) and c.dtype in (*FLOATS, "i32", "i64"):
        return cast(a, c.dtype) + -b * alpha
    if alpha != 1:
        b = c.value(b, c.dtype) * alpha
    return in_arithmetic(c, _ops.sub, a, b)


@op("rsub.Scalar", "rsub.Tensor")
def rsub(c, a, b, alpha=1):
    a = cast(a, c.dtype)
    if is_number(b) and a.dtype in (*FLOATS, "i32", "i64"):
        return (a * -alpha) + b
    return in_arithmetic(c, _ops.sub, b, a if alpha == 1 else a * alpha)


@op("mul.Tensor", "mul.Scalar")
def mul(c, a, b):
    if c.dtype == "bool":
        return _ops.logical_and(c.value(a, "bool"), c.value(b, "bool"))
    if isinstance(a, Value) and is_number(b) and c.dtype in (*FLOATS, "i32", "i64"):
        return cast(a, c.dtype) * b
    return in_arithmetic(c, _ops.mul, a, b)


@op("div.Tensor", "div.Scalar")
def div(c, a, b):
    if isinstance(a, Value) and is_number(b) and b != 0:
        return cast(a, c.dtype) * (1 / b)
    return in_arithmetic(c, _ops.div, a, b)


@op("div.Tensor_mode", "div.Scalar_mode")
def div_mode(c, a, b, *, rounding_mode=None):
    if rounding_mode is None:
        return div(c, a, b)
    return in_arithmetic(c, _ops.floor_divide if rounding_mode == "floor" else _ops.trunc_divide, a, b)


@op("floor_divide.default", "floor_divide.Scalar")
def floor_divide(c, a, b):
    return in_arithmetic(c, _ops.floor_divide, a, b)


BINARY = {"maximum.default": _ops.maximum, "minimum.default": _ops.minimum, "fmod.Tensor": _ops.fmod, "fmod.Scalar": _ops.fmod, "remainder.Tensor": _ops.remainder,
          "remainder.Scalar": _ops.remainder, "remainder.Scalar_Tensor": _ops.remainder}
for _name, _function in BINARY.items():
    op(_name)(lambda c, a, b, function=_function: in_arithmetic(c, function, a, b))

COMPARISONS = {"eq": _ops.equal, "ne": _ops.not_equal, "gt": _ops.greater, "ge": _ops.greater_equal, "lt": _ops.less, "le": _ops.less_equal}


def _compared(function):
    def call(c, a, b):
        dtype = c.computes_in(0, 1)
        return function(c.value(a, dtype), c.value(b, dtype))
    return call


for _name, _function in COMPARISONS.items():
    op(_name + ".Tensor", _name + ".Scalar")(_compared(_function))

LOGIC = {"logical_and": _ops.logical_and, "logical_or": _ops.logical_or, "logical_xor": _ops.logical_xor}
for _name, _function in LOGIC.items():
    op(_name + ".default")(lambda c, a, b, function=_function: function(c.value(a, "bool"), c.value(b, "bool")))


def _bitwise(name):
    def call(c, a, b):
        if c.dtype == "bool":
            return LOGIC["logical_" + name](c.value(a, "bool"), c.value(b, "bool"))
        return getattr(_ops, "bitwise_" + name)(c.value(a, c.dtype), c.value(b, c.dtype))
    return call


for _name in ("and", "or", "xor"):
    op(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"__{_name}__.Tensor", f"__{_name}__.Scalar")(_bitwise(_name))


@op("pow.Tensor_Scalar")
def pow_scalar(c, x, n):
    x = cast(x, c.dtype)
    if n == 0:
        return c.constant(c.dtype, c.shape, 1)
    if n == 1:
        return x
    if n == 2:
        return _ops.square(x)
    if n == 3:
        return _ops.square(x) * x
    if n == 4:
        return _ops.square(_ops.square(x))
    if n in (0.5, -0.5, -1):
        return {0.5: _ops.sqrt, -0.5: _ops.rsqrt, -1: _ops.reciprocal}[n](x)
    return _ops.pow(x, c.value(n, x.dtype))


@op("pow.Tensor_Tensor", "pow.Scalar")
def pow_tensor(c, a, b):
    return in_arithmetic(c, _ops.pow, a, b)


@op("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(c, condition, a, b):
    return _ops.where(cast(condition, "bool"), c.value(a, c.dtype), c.value(b, c.dtype))


@op("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(c, x, mask, value):
    return _ops.where(cast(mask, "bool"), c.value(value, c.dtype), cast(x, c.dtype))


@op("lerp.Scalar", "lerp.Tensor")
def lerp(c, a, b, weight):
    return a + (b - a) * weight


@op("addcmul.default")
def addcmul(c, x, a, b, *, value=1):
    return x + (a * b if value == 1 else a * b * value)


@op("addcdiv.default")
def addcdiv(c, x, a, b, *, value=1):
    return x + (a / b if value == 1 else a / b * value)


@op("copy.default")
def copy(c, x, source, non_blocking=False):
    return expand(c, cast(source, c.dtype), None)


# ---- reductions ----

def axes_of(axes):
    """None: all axes."""
    return None if axes is None or (isinstance(axes, (list, tuple)) and not axes) else list(axes) if isinstance(axes, (list, tuple)) else [axes]


@op("sum.default", "sum.dim_IntList")
def sum_(c, x, axes=None, keep=False, *, dtype=None):
    x = cast(x, c.dtype) if c.result.is_floating_point() else x
    return cast(_ops.sum(x, axes_of(axes), keep), c.dtype) if x.ndim else cast(x, c.dtype)


@op("mean.default", "mean.dim")
def mean(c, x, axes=None, keep=False, *, dtype=None):
    return _ops.mean(cast(x, c.dtype), axes_of(axes), keep) if x.ndim else cast(x, c.dtype)


def _reduced(function):
    return lambda c, x, axes=None, keep=False, **given: function(x, axes_of(axes), keep)


for _names, _function in {("amax.default", "max.default"): _ops.amax, ("amin.default", "min.default"): _ops.amin, ("any.default", "any.dim", "any.dims"): _ops.any,
                          ("all.default", "all.dim", "all.dims"): _ops.all, ("logsumexp.default",): _ops.logsumexp}.items():
    op(*_names)(_reduced(_function))


@op("prod.default", "prod.dim_int")
def prod(c, x, axis=None, keep=False, *, dtype=None):
    return cast(_ops.prod(cast(x, c.dtype), axes_of(axis), keep), c.dtype)


@op("argmax.default", "argmin.default")
def argmax(c, x, axis=None, keep=False):
    function = _ops.argmax if "argmax" in c.name else _ops.argmin
    return function(x, axis, keep) if axis is not None else function(_ops.reshape(x, [-1]), 0, False)


@op("max.dim")
def max_(c, x, axis, keep=False):
    return _ops.max(x, axis, keep)


@op("min.dim")
def min_(c, x, axis, keep=False):
    return _ops.min(x, axis, keep)


def correction_of(correction, unbiased):
    return (1 if unbiased else 0) if isinstance(unbiased, bool) else 1 if correction is None else correction


@op("var.correction", "var.dim")
def var(c, x, axes=None, unbiased=None, keepdim=False, *, correction=None):
    return _ops.var(x, correction_of(correction, unbiased), axes_of(axes), keepdim)


@op("std.correction", "std.dim")
def std(c, x, axes=None, unbiased=None, keepdim=False, *, correction=None):
    return _ops.std(x, correction_of(correction, unbiased), axes_of(axes), keepdim)


@op("var_mean.correction", "var_mean.dim")
def var_mean(c, x, axes=None, unbiased=None, keepdim=False, *, correction=None):
    return _ops.var(x, correction_of(correction, unbiased), axes_of(axes), keepdim), _ops.mean(x, axes_of(axes), keepdim)


@op("linalg_vector_norm.default")
def vector_norm(c, x, p=2, axes=None, keep=False, *, dtype=None):
    return _ops.vector_norm(cast(x, c.dtype), p, axes_of(axes), keep)


@op("norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype")
def norm(c, x, p=2, axes=None, keep=False, **given):
    return _ops.vector_norm(cast(x, c.dtype), 2 if p is None else p, axes_of(axes), keep)


@op("cumsum.default")
def cumsum(c, x, axis, *, dtype=None):
    return cast(_ops.cumsum(cast(x, c.dtype) if c.result.is_floating_point() else x, axis), c.dtype)


@op("cumprod.default")
def cumprod(c, x, axis, *, dtype=None):
    return cast(_ops.cumprod(cast(x, c.dtype) if c.result.is_floating_point() else x, axis), c.dtype)


# ---- shapes ----

def reshaped(c, x, shape):
    """x in the shape of the result. The one length that is neither a number nor the batch becomes -1."""
    lengths = []
    for n in shape:
        try:
            lengths.append(c.builder.length(n, c))
        except Error:
            if -1 in lengths:
                raise
            lengths.append(-1)
    return _ops.reshape(x, lengths)


@op("view.default", "_unsafe_view.default", "reshape.default", "view_copy.default", "flatten.using_ints", "unflatten.int", "squeeze.default", "squeeze.dim", "squeeze.dims",
    "_reshape_alias.default", "view_as.default", "reshape_as.default")
def view(c, x, *shape, **given):
    return reshaped(c, x, c.result.shape)


@op("view.dtype")
def view_dtype(c, x, dtype):
    if cast(x, c.dtype) is x:
        return x
    raise c.refused("the bits of one type as another", "to(dtype)")


@op("unsqueeze.default")
def unsqueeze(c, x, axis):
    return _ops.unsqueeze(x, axis)


@op("permute.default")
def permute(c, x, axes):
    return _ops.permute(x, axes)


@op("transpose.int", "swapaxes.default")
def transpose(c, x, a, b):
    return _ops.transpose(x, a, b) if x.ndim > 1 else x


@op("t.default", "numpy_T.default", "mT.default", "adjoint.default", "matrix_H.default")
def t(c, x):
    return _ops.transpose(x, -1, -2) if x.ndim > 1 else x


@op("movedim.int", "movedim.intlist")
def movedim(c, x, source, target):
    source, target = (s if isinstance(s, list) else [s] for s in (source, target))
    places = {b % x.ndim: a % x.ndim for a, b in zip(source, target)}
    rest = iter([i for i in range(x.ndim) if i not in places.values()])
    return _ops.permute(x, [places[i] if i in places else next(rest) for i in range(x.ndim)])


@op("expand.default", "expand_copy.default", "expand_as.default", "broadcast_to.default")
def expand(c, x, shape=None, implicit=False):
    if x.ndim == 0 and len(c.result.shape) == 0:
        return x
    return x if not isinstance(shape, Value) and list(x.shape) == c.shape else _ops.broadcast_to(x, c.shape)


@op("cat.default", "concat.default", raw=True)
def cat(c, values, axis=0):
    values = [cast(c.values(v), c.dtype) for v in values if isinstance(v, Value) or v.numel()]
    return values[0] if len(values) == 1 else _ops.concat(values, axis)


@op("stack.default")
def stack(c, values, axis=0):
    axis %= len(c.result.shape)  # negative ones count from the end of the result
    return cat(c, [_ops.unsqueeze(v, axis) for v in values], axis)


def bounds(c, length, start, end):
    """(start, end) of a slice within a length, as PyTorch clips them; None: to the end."""
    start = 0 if start is None else start
    if not isinstance(length, int):
        return start, None if end is None or not isinstance(end, int) or end >= 2**62 else end
    start = max(0, start + length) if start < 0 else min(start, length)
    end = length if end is None or not isinstance(end, int) else max(0, end + length) if end < 0 else min(end, length)
    return start, None if end == length else end


@op("slice.Tensor", "slice_copy.Tensor", "narrow.default")
def slice_(c, x, axis=0, start=None, end=None, step=1):
    if c.name.endswith("narrow.default"):
        end = start + end
    start, end = bounds(c, c.about(0).shape[axis], start, end)
    if step != 1:
        return _ops.strided_slice(x, axis, start, end, step)
    return x if start == 0 and end is None else _ops.slice(x, axis, start, end)


@op("select.int", "select_copy.int")
def select(c, x, axis, at):
    return _ops.squeeze(_ops.slice(x, axis, at, at + 1 if at != -1 else None), axis)


@op("slice_scatter.default")
def slice_scatter(c, x, source, axis=0, start=None, end=None, step=1):
    length = c.about(0).shape[axis]
    start, end = bounds(c, length, start, end)
    source = cast(source, x.dtype)
    if step != 1:
        return scatter_rows(c, x, axis, range(start, length if end is None else end, step), source)
    parts = [_ops.slice(x, axis, 0, start)] if start else []
    parts.append(source)
    if end is not None:
        parts.append(_ops.slice(x, axis, end, None))
    return parts[0] if len(parts) == 1 else _ops.concat(parts, axis)


def scatter_rows(c, x, axis, rows, source):
    """x with the parts of `source` in these places of an axis."""
    import torch
    shape = [1] * x.ndim
    shape[axis % x.ndim] = len(rows)
    ids = as_value(c.builder, torch.tensor(list(rows)).reshape(shape).expand(*source.shape))
    return _ops.scatter(x, axis, ids, source)


@op("select_scatter.default")
def select_scatter(c, x, source, axis, at):
    return slice_scatter(c, x, _ops.unsqueeze(source, axis % x.ndim), axis, at, at + 1 if at != -1 else None)


@op("split.Tensor", "split_with_sizes.default", "split.sizes", "split_with_sizes_copy.default", "chunk.default", "unsafe_split.Tensor", "tensor_split.indices", "tensor_split.sections")
def split(c, x, sizes, axis=0):
    axis %= x.ndim
    sizes = [part.shape[axis] for part in c.node.meta["val"]]
    if len(sizes) == 1:
        return [x]
    if not all(isinstance(n, int) for n in sizes):
        return list(_ops.chunk(x, len(sizes), axis))
    # The last part is made first, as C evaluates arguments: then their gradients become one concat.
    ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
    return [_ops.slice(x, axis, end - size, end) for size, end in reversed(list(zip(sizes, ends)))][::-1]


@op("unbind.int")
def unbind(c, x, axis=0):
    return [select(c, x, axis, i) for i in reversed(range(len(c.node.meta["val"])))][::-1]  # as in split()


@op("repeat.default", "tile.default")
def repeat(c, x, repeats):
    if all(r == 1 for r in repeats):
        return x if len(repeats) <= x.ndim else _ops.reshape(x, [1] * (len(repeats) - x.ndim) + [-1 if n == BATCH else n for n in x.shape])
    if x.ndim == 0 or all(n == 1 for n in list(c.about(0).shape)):
        return _ops.broadcast_to(_ops.reshape(x, [1] * len(c.shape)), c.shape)
    return _ops.tile(x, repeats)


@op("repeat_interleave.self_int")
def repeat_interleave(c, x, repeats, axis=None, *, output_size=None):
    return _ops.repeat_interleave(_ops.reshape(x, [-1]) if axis is None else x, repeats, 0 if axis is None else axis)


@op("roll.default")
def roll(c, x, shifts, axes=()):
    shifts, axes = (s if isinstance(s, list) else [s] for s in (shifts, axes))
    if not axes:
        return reshaped(c, _ops.roll(_ops.reshape(x, [-1]), shifts[0], 0), c.result.shape)
    for shift, axis in zip(shifts, axes):
        x = _ops.roll(x, shift, axis)
    return x


@op("flip.default")
def flip(c, x, axes):
    return _ops.flip(x, axes)


@op("constant_pad_nd.default")
def constant_pad(c, x, pads, value=0):
    return _ops.constant_pad(x, pads, value)


@op("pad.default")
def pad(c, x, pads, mode="constant", value=None):
    if mode == "constant":
        return _ops.constant_pad(x, pads, value or 0)
    return {"reflect": _ops.reflect_pad, "replicate": _ops.replicate_pad, "circular": _ops.circular_pad}[mode](x, pads)


for _name, _function in {"reflection_pad": _ops.reflect_pad, "replication_pad": _ops.replicate_pad}.items():
    op(*(f"{_name}{n}d.default" for n in (1, 2, 3)))(lambda c, x, pads, function=_function: function(x, pads))


@op("tril.default")
def tril(c, x, diagonal=0):
    return _ops.tril(x, diagonal)


@op("triu.default")
def triu(c, x, diagonal=0):
    return _ops.triu(x, diagonal)


@op("diagonal.default", "diagonal_copy.default")
def diagonal(c, x, offset=0, a=0, b=1):
    import torch
    a, b = a % x.ndim, b % x.ndim
    rows, columns = c.about(0).shape[a], c.about(0).shape[b]
    count = c.result.shape[-1]
    x = movedim(c, x, [a, b], [-2, -1])
    flat = _ops.reshape(x, [*(-1 if n == BATCH else n for n in c.lengths(c.result.shape[:-1])), rows * columns])
    first = offset if offset >= 0 else -offset * columns
    return _ops.index_select(flat, -1, as_value(c.builder, first + (columns + 1) * torch.arange(count)))


# ---- constants and random numbers ----

@op("full.default", "zeros.default", "ones.default", "full_like.default", "zeros_like.default", "ones_like.default", "new_full.default", "new_zeros.default", "new_ones.default",
    "empty.memory_format", "empty_like.default", "new_empty.default", "empty_permuted.default", "new_empty_strided.default", "fill.Scalar", "zero.default")
def full(c, *given, **more):
    number = 1 if "ones" in c.name else 0
    if "full" in c.name or "fill" in c.name:
        number = more.get("fill_value", given[-1])
    return c.constant(c.dtype, c.shape, number)


@op("fill.Tensor")
def fill(c, x, number):
    return expand(c, cast(number, c.dtype))


@op("scalar_tensor.default")
def scalar_tensor(c, number, **given):
    return c.constant(c.dtype, (), number)


@op("arange.default", "arange.start", "arange.start_step")
def arange(c, *given, **more):
    start, step = 0, 1
    if "start" in c.name:
        start, step = given[0], given[2] if len(given) > 2 else 1
    if step != 1 and c.shape == [BATCH]:
        return cast(_ops.arange(c.graph, "i64", 0, BATCH, 1) * step + start, c.dtype)
    if c.shape == [BATCH]:
        made = _ops.arange(c.graph, c.dtype, 0, BATCH, 1)
        return made if start == 0 else made + start
    return _ops.arange(c.graph, c.dtype, start, start + step * c.shape[0], step)


def shaped_random(c, normal):
    make = _ops.random_normal if normal else _ops.random_uniform
    return cast(make(c.graph, c.shape), c.dtype)


@op("rand.default", "rand_like.default", "rand.generator")
def rand(c, *given, **more):
    return shaped_random(c, False)


@op("randn.default", "randn_like.default", "randn.generator")
def randn(c, *given, **more):
    return shaped_random(c, True)


@op("randint.default", "randint.low", "randint_like.default", "randint_like.low_dtype")
def randint(c, *given, **more):
    numbers = [n for n in given if isinstance(n, int)]
    low, high = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
    return cast(_ops.floor(_ops.random_uniform(c.graph, c.shape, low, high)), c.dtype)


@op("bernoulli.p", "bernoulli.default")
def bernoulli(c, x, p=None):
    chosen = _ops.less(_ops.random_uniform(c.graph, c.shape), c.value(p if p is not None else x, "f32"))
    return cast(chosen, c.dtype)


@op("normal_functional.default", "uniform.default")
def filled(c, x, a=0.0, b=1.0):
    if "normal" in c.name:
        return cast(_ops.random_normal(c.graph, c.shape, a, b), c.dtype)
    return cast(_ops.random_uniform(c.graph, c.shape, a, b), c.dtype)


@op("dropout.default")
def dropout(c, x, p, train):
    return _ops.dropout(x, p) if train and p > 0 else x


@op("native_dropout.default")
def native_dropout(c, x, p, train):
    return (_ops.dropout(x, p) if train and p > 0 else x), None
