"""Pointwise ATen ops as calls of Weft's builders (torch_ops.py has the table)."""
import math

from . import _ops
from .model import Value
from .torch_ops import FLOATS, cast, op
from .torch_shapes import expand


# ---- pointwise: one operand ----

UNARY = {n: getattr(_ops, n) for n in (
    "neg", "abs", "square", "sqrt", "rsqrt", "reciprocal", "exp", "log", "tanh", "sigmoid", "relu", "silu", "mish", "selu", "hardswish", "hardsigmoid", "relu6", "erf", "sin",
    "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "expm1", "log1p", "floor", "ceil", "trunc", "sign")}
UNARY.update({"sgn": _ops.sign, "log_sigmoid": _ops.logsigmoid, "positive": lambda x: x, "negative": _ops.neg, "absolute": _ops.abs})


def _unary(function):
    def call(c, x):
        if x.is_float or x.dtype in ("i32", "i64") and not c.result.is_floating_point():
            return function(cast(x, c.dtype) if c.result.is_floating_point() else x)
        return cast(function(cast(x, c.dtype if c.result.is_floating_point() else "i64")), c.dtype)
    return call


for _name, _function in UNARY.items():
    op(_name + ".default")(_unary(_function))

# By f64, where f32 would round twice or cancel.
BY_F64 = {"log2": lambda x: x.log() * (1 / math.log(2)), "log10": lambda x: x.log() * (1 / math.log(10)), "exp2": lambda x: (x * math.log(2)).exp(),
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


BINARY = {"atan2.default": _ops.atan2, "maximum.default": _ops.maximum, "minimum.default": _ops.minimum, "fmod.Tensor": _ops.fmod, "fmod.Scalar": _ops.fmod, "remainder.Tensor": _ops.remainder,
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
