"""Arrays of Python in and out: NumPy, torch and all that has the buffer protocol or DLPack, without a copy where there is no need."""
import math

from ._lib import DTYPES, Error, dtype_word, ffi, word

# NumPy has no bf16: it is two bytes of an unsigned number here.
_NUMPY = {weft: name for name, weft in DTYPES.items()} | {"bf16": "uint16"}
_WEFT = {name: weft for name, weft in DTYPES.items() if weft != "bf16"}


def numpy_dtype(name):
    import numpy
    return numpy.dtype(_NUMPY[name])


def dtype_name(dtype):
    """The word of an element type: "f32" of "float32", numpy.float32, torch.float32."""
    return dtype_word(word("weft_dtype", dtype))


def memory_of_c(data, about, writeable):
    """An array on memory of C, valid as long as that; `about` has its dtype, ndim and shape."""
    import numpy
    dtype, shape = numpy_dtype(dtype_word(about.dtype)), tuple(about.shape[0:about.ndim])
    array = numpy.frombuffer(ffi.buffer(data, math.prod(shape) * dtype.itemsize), dtype).reshape(shape)
    array.flags.writeable = writeable
    return array


def _of_torch(array, what):
    import torch
    if array.device.type != "cpu":
        raise Error("argument", f"{what}: a tensor on {array.device}, and memory of the host is taken: write tensor.cpu()")
    array = array.detach()
    if array.dtype == torch.bfloat16:
        return array.contiguous().view(torch.int16).numpy().view("uint16"), "bf16"
    return array.numpy(), None


def _of_numbers(numbers, dtype, what):
    """Numbers and lists of Python in a type that holds them."""
    import numpy
    given = numpy.asarray(numbers)
    if given.dtype.kind not in "biuf":
        raise Error("type", f"{what}: these are not numbers")
    if dtype is None:
        return given.astype(numpy.float32) if given.dtype == numpy.float64 else given, None
    return converted(given, dtype, what), dtype


def converted(array, dtype, what):
    """Numbers in another type, which must hold them: integers exactly, floating point rounded."""
    import numpy
    if array.dtype.kind not in "biuf":
        raise Error("type", f"{what}: it is {array.dtype}, and {dtype} is needed")
    if dtype == "bf16":
        bits = array.astype(numpy.float32).view(numpy.uint32)
        rounded = ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)
        return numpy.where(numpy.isnan(array), numpy.uint16(0x7fc0), rounded)
    with numpy.errstate(all="ignore"):
        made = array.astype(numpy_dtype(dtype))
        if made.dtype.kind in "biu" and not (made == array).all():
            raise Error("type", f"{what}: {dtype} does not hold all these numbers")
    return made


def as_array(array, dtype=None, what="this"):
    """A row-major NumPy array on the same memory, where that is possible, and the word of its type. Python's numbers and lists get `dtype`; 16
    bits of an unsigned number are bf16 where `dtype` is."""
    import numpy
    dtype, name = None if dtype is None else dtype_name(dtype), None
    if type(array).__module__.split(".")[0] == "torch" and hasattr(array, "device"):
        array, name = _of_torch(array, what)
    elif isinstance(array, (int, float, list, tuple)):
        array, name = _of_numbers(array, dtype, what)
    elif not isinstance(array, (numpy.ndarray, numpy.generic)):
        array = numpy.from_dlpack(array) if hasattr(array, "__dlpack__") else numpy.asarray(array)
    array = numpy.asarray(array)
    if name is None:
        name = "bf16" if dtype == "bf16" and array.dtype == numpy.uint16 else _WEFT.get(str(array.dtype))
    if name is None:
        raise Error("type", f"{what}: {array.dtype} is not a type of Weft: convert it")
    return (array if array.flags.c_contiguous else numpy.ascontiguousarray(array)), name


def fits(array, port, what):
    """The array as C reads it for a port, which has one type and shape."""
    array, name = as_array(array, port.dtype, what)
    if name != port.dtype:
        raise Error("type", f"{what}: it is {name} ({array.dtype}), and the graph takes {port.dtype}: convert it")
    if tuple(array.shape) != port.shape:
        raise Error("shape", f"{what}: its shape is {list(array.shape)}, and the graph takes {list(port.shape)}")
    return array


def stored(array, dtype, what):
    """The array in the type of a value of a store."""
    import numpy
    array, name = as_array(array, None, what)
    if name == "bf16":
        array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array if name == dtype else converted(array, dtype, what)
